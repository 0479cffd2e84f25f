"""Successive sampling with Des Raj's ordered estimator."""

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
from turnout.samplers.draw_by_draw import DrawByDraw, gumbel_scores, one_draw_variance
from turnout.samplers.in_double import in_double


@record
class DesRaj(DrawByDraw):
    """K clients one after another without replacement, i with probability q_i / r_k among those left (Des Raj, 1956).

    With r_k = 1 - sum_{l < k} q_l over the clients drawn before the k-th, each t_k = sum_{l < k} v_l + v_k r_k / q_k is unbiased
    for sum_i v_i, and so is their mean over k = 1..K, in which the k-th client drawn counts (K - k + r_k / q_k) / K. If all
    clients with q_i > 0 are drawn, each counts 1. The inclusion probabilities have no closed form: `Cohort.probability` is one
    over what a client counts.

    Args:
        probability: A rule for q_i, or q [n], positive, with sum 1; None takes q_i = 1 / n.
        size: K, the number of clients in a cohort.

    Examples:
        >>> import jax, turnout as t
        >>> population = t.Population(count=4)
        >>> sampler = t.DesRaj([0.5, 0.25, 0.125, 0.125], size=4).bind(population)
        >>> cohort = sampler.draw(None, jax.random.key(0), population)
        >>> sorted(cohort.ids.tolist()), cohort.expansion.tolist()
        ([0, 1, 2, 3], [1.0, 1.0, 1.0, 1.0])
    """

    name: ClassVar[str] = "des-raj"
    weights: ClassVar[str] = "lambda_i (K - k + r_k / q_k) / K for the k-th drawn"

    @in_double
    def draw(self, state, key, population):
        q = self.draw_probabilities(state, population)
        _, ids = lax.top_k(gumbel_scores(key, q), self.size)
        active = q[ids] > 0
        after = jnp.arange(self.size - 1, -1, -1, dtype=q.dtype)
        counts = jnp.where(active & ~self._draws_all(q), (after + _remaining(q, ids) / positive(q[ids])) / self.size, 1)
        p = 1 / counts
        return Cohort.of(ids, p, population, selection="arbitrary", active=active, expansion=1 / p)

    def estimate(self, state: Any, cohort: Cohort, vectors: Float[Array, "m d"], population: Population) -> Float[Array, ""]:
        """Return sum_k |t_k - mean|^2 / (K (K - 1)), an unbiased estimate of the variance from one cohort.

        Args:
            state: The state in which the cohort was drawn.
            cohort: The cohort.
            vectors: v_i at the cohort's places [m, d].
            population: All clients.

        Raises:
            UserError: If K = 1.
        """
        if self.size < 2:
            raise UserError("sampler 'des-raj' cannot estimate the variance from a cohort of one client: raise size")
        q = self.draw_probabilities(state, population).astype(vectors.dtype)
        ratio = (_remaining(q, cohort.ids) / positive(q[cohort.ids]))[:, None]
        t = jnp.cumsum(vectors, axis=0) + (ratio - 1) * vectors
        spread = jnp.sum((t - jnp.mean(t, axis=0, keepdims=True)) ** 2)
        return jnp.where(self._draws_all(q), 0, spread / (self.size * (self.size - 1)))

    def expected_draws(self, state, population):
        """Return p_i = 1 - exp(-q_i s) with s such that sum p = K, an approximation (Hajek, 1964; Rosen, 1972).

        Args:
            state: State of the sampler.
            population: The clients, their weights, and who is available.
        """
        q = self.draw_probabilities(state, population)
        s = exponential_time(q, jnp.asarray(self.size, q.dtype))
        return jnp.where(self._draws_all(q), (q > 0).astype(q.dtype), -jnp.expm1(-q * s))

    def variance(self, state, population, vectors):
        """Return (1 / K^2) sum_k (sum_i e_i q_i sum_i e_i |v_i|^2 / q_i - |sum_i e_i v_i|^2).

        It is the exact variance if e_i indicates that client i is left before the k-th draw, in expectation over draws. Here
        e_i = exp(-q_i s) with sum_i (1 - e_i) = k - 1, as if clients left independently: approximate unless K = 1.

        Args:
            state: State of the sampler.
            population: The clients, their weights, and who is available.
            vectors: v_i [n, d].
        """
        q = self.draw_probabilities(state, population).astype(vectors.dtype)
        s = jax.vmap(exponential_time, in_axes=(None, 0))(q, jnp.arange(self.size, dtype=q.dtype))
        left = jnp.exp(-s[:, None] * q[None])
        terms = jax.vmap(one_draw_variance, in_axes=(None, 0, None))(q, left, vectors)
        return jnp.where(self._draws_all(q), 0, jnp.sum(terms) / self.size**2)

    def _draws_all(self, q: Float[Array, " n"]) -> Bool[Array, ""]:
        """Whether all clients with q_i > 0 are drawn."""
        return jnp.sum(q > 0) <= self.size


def _remaining(q: Float[Array, " n"], ids: Int[Array, " m"]) -> Float[Array, " m"]:
    """Return r_k = 1 - sum_{l < k} q_l for clients `ids` in the order drawn, without subtractions, so small r_k are exact."""
    return jnp.sum(q.at[ids].set(0)) + jnp.cumsum(q[ids][::-1])[::-1]


@jax.jit
def exponential_time(q: Float[Array, " n"], drawn: Float[Array, ""]) -> Float[Array, ""]:
    """Return s with sum_i (1 - exp(-q_i s)) = `drawn`, by Newton's method, which increases monotonically from 0.

    Args:
        q: q_i >= 0 [n].
        drawn: Expected number of clients that are drawn.
    """

    def step(_, s):
        left = jnp.exp(-q * s)
        return s + jnp.maximum(0, drawn + jnp.sum(jnp.expm1(-q * s))) / positive(jnp.sum(q * left))

    return lax.fori_loop(0, NEWTON_STEPS, step, jnp.zeros((), q.dtype))


NEWTON_STEPS = 30
"""Newton steps, enough for any q: the function is concave, and convergence is slow only at first, for very unequal q."""
