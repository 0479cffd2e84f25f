"""How strongly I-CGM ties x^{t+1} to x^t, measured along the way: by how otherwise the delegate's gradient moves than f's."""

import math

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree, UInt32

from turnout.core.tree import positive
from turnout.theory.selection import cohort_delta

NUMBERS = 8
"""The numbers of a sketch: the square of a length is then known up to a factor 1 +- 1/2."""

KEPT = 0.8
"""What a round leaves of lambda^2. Some five rounds are averaged, and lambda falls to its half in no less than six. It has to
fall, for delta and Delta_1 may do so by orders of magnitude along a run, as the Hessians of logistic losses do."""


def renewed(lam: Float[Array, ""], scale, apart: Float[Array, " k"], step: Float[Array, ""]) -> Float[Array, ""]:
    """Return the root of KEPT lambda^2 + (1 - KEPT) scale^2 |u|^2 / |x^{t+1} - x^t|^2, and lambda where x stands still, for

        u = (grad f_S(x^{t+1}) - grad f_S(x^t)) - (grad f_1(x^{t+1}) - grad f_1(x^t))

    with the sketch `apart`, `step` being |x^{t+1} - x^t|. The mean of |u|^2 over uniform cohorts S is at most the step's square
    times Delta_1^2 + delta_m^2 (cost-aware client selection, section 2.2 and equation (9)).
    """
    square = jnp.mean(jnp.square(scale * apart / positive(step)))
    return jnp.where(step > 0, jnp.sqrt(KEPT * jnp.square(lam) + (1 - KEPT) * square), lam)


def scale_of(clients: int, size: int) -> float:
    """(sqrt(n) / m + 1) / sqrt(1 + q_m / m), q_m = (n - m) / (n - 1), for n clients in cohorts of m.

    This times sqrt(Delta_1^2 + delta_m^2) is (sqrt(n) / m) delta + Delta_1, the paper's lambda in practice, where the delegate is
    like any other client, Delta_1 = delta.
    """
    return (math.sqrt(clients) / size + 1) / math.hypot(1, cohort_delta(1.0, clients, size))


def sketch(seed: UInt32[Array, ""], tree: PyTree) -> Float[Array, " k"]:
    """Return sums over all entries of `tree` with k = `NUMBERS` random signs each, the same for the same `seed`.

    It is linear in `tree`, and the mean of the squares is |tree|^2 on average (Alon, Matias and Szegedy, 1999).
    """
    flat = ravel_pytree(tree)[0]
    return jax.random.rademacher(jax.random.key(seed), (NUMBERS, flat.size), flat.dtype) @ flat
