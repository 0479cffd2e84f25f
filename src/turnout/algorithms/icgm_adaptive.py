"""Adaptive estimate of I-CGM's lambda from the observed dissimilarity of gradients."""

import math

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree, UInt32

from turnout.core.tree import positive
from turnout.theory.selection import cohort_delta

SKETCH_SIZE = 8
"""Numbers of a sketch; the square of a length is then known up to a factor 1 +- 1/2."""

DECAY = 0.8
"""Factor of lambda^2 in a round. About five rounds are averaged, and lambda halves in no less than six. It has to fall, as
delta and Delta_1 may do so by orders of magnitude along a run, like the Hessians of logistic losses."""


def updated_lam(lam: Float[Array, ""], scale, gap: Float[Array, " k"], step: Float[Array, ""]) -> Float[Array, ""]:
    """Return sqrt(d lambda^2 + (1 - d) scale^2 |u|^2 / |x^{t+1} - x^t|^2), d = `DECAY`, or lambda where x did not move.

    u = (grad f_S(x^{t+1}) - grad f_S(x^t)) - (grad f_1(x^{t+1}) - grad f_1(x^t)). The mean of |u|^2 over uniform cohorts S is at
    most (Delta_1^2 + delta_m^2) |x^{t+1} - x^t|^2 (Cost-aware client selection, section 2.2 and equation (9)).

    Args:
        lam: lambda.
        scale: Factor from `prox_scale`.
        gap: Sketch of u.
        step: |x^{t+1} - x^t|.
    """
    square = jnp.mean(jnp.square(scale * gap / positive(step)))
    return jnp.where(step > 0, jnp.sqrt(DECAY * jnp.square(lam) + (1 - DECAY) * square), lam)


def prox_scale(clients: int, size: int) -> float:
    """Return (sqrt(n) / m + 1) / sqrt(1 + q_m / m), q_m = (n - m) / (n - 1), for n clients in cohorts of m.

    Times sqrt(Delta_1^2 + delta_m^2) this is (sqrt(n) / m) delta + Delta_1, the paper's lambda in practice, if the delegate is
    like any other client, Delta_1 = delta.

    Args:
        clients: n.
        size: m.
    """
    return (math.sqrt(clients) / size + 1) / math.hypot(1, cohort_delta(1.0, clients, size))


def sketch(seed: UInt32[Array, ""], tree: PyTree) -> Float[Array, " k"]:
    """Return `SKETCH_SIZE` sums over all entries of `tree` with random signs, which depend on `seed` only.

    It is linear in `tree`, and the mean of the squares is |tree|^2 on average (Alon, Matias and Szegedy, 1999).

    Args:
        seed: 32 random bits.
        tree: A pytree of arrays.
    """
    flat = ravel_pytree(tree)[0]
    return jax.random.rademacher(jax.random.key(seed), (SKETCH_SIZE, flat.size), flat.dtype) @ flat
