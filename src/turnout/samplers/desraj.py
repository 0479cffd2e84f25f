"""Des Raj's design: unequal chances, without replacement, in order."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import record
from turnout.core.tree import positive
from turnout.problems.base import Population
from turnout.samplers.successive import ByChances, one_draw, race


@record
class DesRaj(ByChances):
    """K clients without replacement, each drawn by q_i among those left, and Des Raj's ordered estimator (1956).

    With r_k = 1 - sum_{l < k} q_l over those drawn before the k-th, each t_k = sum_{l < k} v_l + v_k r_k / q_k is unbiased for
    sum_i v_i, and so is their mean over k = 1..K, for which the k-th client drawn counts (K - k + r_k / q_k) / K. Where all with
    q_i > 0 are drawn, each counts 1. A place's `probability` is one over what it counts, since there is no closed form for p_i.
    """

    name: ClassVar[str] = "des-raj"
    weights: ClassVar[str] = "lambda_i (K - k + r_k / q_k) / K for the k-th drawn"

    def draw(self, state, key, population):
        q = self.draw_probabilities(state, population)
        _, ids = lax.top_k(race(key, q), self.size)
        active = q[ids] > 0
        after = jnp.arange(self.size - 1, -1, -1, dtype=q.dtype)
        counts = jnp.where(active & ~self._all(q), (after + _left(q, ids) / positive(q[ids])) / self.size, 1)
        return Cohort.of(ids, 1 / counts, population, selection="arbitrary", active=active)

    def estimate(self, state: Any, cohort: Cohort, vectors: Float[Array, "m d"], population: Population) -> Float[Array, ""]:
        """Return sum_k |t_k - mean|^2 / (K (K - 1)), unbiased for the variance, from the v_i at the cohort's places, `vectors`.

        Takes the state that the cohort was drawn in. Raises `UserError` for cohorts of one.
        """
        if self.size < 2:
            raise UserError("sampler 'des-raj' cannot tell the variance from one draw of one client: raise size")
        q = self.draw_probabilities(state, population).astype(vectors.dtype)
        ratio = (_left(q, cohort.ids) / positive(q[cohort.ids]))[:, None]
        t = jnp.cumsum(vectors, axis=0) + (ratio - 1) * vectors
        spread = jnp.sum((t - jnp.mean(t, axis=0, keepdims=True)) ** 2)
        return jnp.where(self._all(q), 0, spread / (self.size * (self.size - 1)))

    def expected_draws(self, state, population):
        """Return p_i = 1 - exp(-q_i s) with s such that sum p = K: approximate (Hajek, 1964; Rosen, 1972)."""
        q = self.draw_probabilities(state, population)
        s = clock(q, jnp.asarray(self.size, q.dtype))
        return jnp.where(self._all(q), (q > 0).astype(q.dtype), -jnp.expm1(-q * s))

    def variance(self, state, population, vectors):
        """Return (1 / K^2) sum_k (sum_i e_i q_i sum_i e_i |v_i|^2 / q_i - |sum_i e_i v_i|^2).

        It is exact if e_i is whether i is left before the k-th draw, in the mean over draws; here e_i = exp(-q_i s), and
        sum_i (1 - e_i) = k - 1, as if clients left independently of each other: approximate, but for K = 1.
        """
        q = self.draw_probabilities(state, population).astype(vectors.dtype)
        s = jax.vmap(clock, in_axes=(None, 0))(q, jnp.arange(self.size, dtype=q.dtype))
        left = jnp.exp(-s[:, None] * q[None])
        terms = jax.vmap(one_draw, in_axes=(None, 0, None))(q, left, vectors)
        return jnp.where(self._all(q), 0, jnp.sum(terms) / self.size**2)

    def _all(self, q: Float[Array, " n"]) -> Bool[Array, ""]:
        """Whether everyone who can be drawn is."""
        return jnp.sum(q > 0) <= self.size


def _left(q: Float[Array, " n"], ids: Int[Array, " m"]) -> Float[Array, " m"]:
    """Return r_k = 1 - sum_{l < k} q_l for clients `ids` in the order drawn, by additions alone, so that a small one is exact."""
    return jnp.sum(q.at[ids].set(0)) + jnp.cumsum(q[ids][::-1])[::-1]


@jax.jit
def clock(q: Float[Array, " n"], drawn: Float[Array, ""]) -> Float[Array, ""]:
    """Return s with sum_i (1 - exp(-q_i s)) = `drawn`, by Newton's method from 0, which increases to it."""

    def step(_, s):
        left = jnp.exp(-q * s)
        return s + jnp.maximum(0, drawn + jnp.sum(jnp.expm1(-q * s))) / positive(jnp.sum(q * left))

    return lax.fori_loop(0, NEWTON, step, jnp.zeros((), q.dtype))


NEWTON = 30
"""Steps of Newton's method, enough for any chances: it is concave, and slow only until it is past the largest of them."""
