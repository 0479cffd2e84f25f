"""Feedback relative to its size G, so that rules do not depend on its unit."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.cohort import Cohort
from turnout.core.tree import positive
from turnout.samplers.probabilities.waterfilling import count


def bound_or_zero(bound: Any) -> Float[Array, ""]:
    """Return G = `bound`, or 0 for a bound that the first feedback sets."""
    return jnp.asarray(0.0 if bound is None else bound, jnp.result_type(float))


def estimated(bound: Float[Array, ""], cohort: Cohort, feedback: Float[Array, " m"], power: int) -> Float[Array, ""]:
    """Return G = `bound` if it is not 0, else (mean pi_i^power)^(1/power) over the cohort's active places.

    Args:
        bound: G, 0 while unknown.
        cohort: The cohort.
        feedback: pi_i of each place of the cohort [m].
        power: Power of the mean.
    """
    ratios, top = jnp.where(cohort.active, feedback, 0), jnp.max(jnp.where(cohort.active, feedback, 0), initial=0)
    mean = jnp.sum((ratios / positive(top)) ** power) / positive(count(cohort.active, feedback.dtype))
    return jnp.where(bound > 0, bound, top * mean ** (1 / power))


def squares(bound: Float[Array, ""], cohort: Cohort, feedback: Float[Array, " m"]) -> Float[Array, " m"]:
    """Return (pi_i / G)^2 expansion_i at the cohort's active places, kept finite; it is unbiased for (pi_i / G)^2.

    Args:
        bound: G, 0 while unknown.
        cohort: The cohort.
        feedback: pi_i of each place of the cohort [m].
    """
    largest = float(jnp.finfo(feedback.dtype).max) ** 0.25
    ratios = jnp.minimum(jnp.where(cohort.active, feedback, 0) / positive(bound), largest)
    return jnp.where(cohort.active, ratios**2 * jnp.minimum(cohort.expansion, largest), 0)


def finite(a: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return a >= 0, with a large number in the place of an overflow."""
    return jnp.minimum(a, jnp.finfo(a.dtype).max / 4)


def latest(last: Float[Array, " n"], cohort: Cohort, feedback: Float[Array, " m"]) -> Float[Array, " n"]:
    """Return `last` with the feedback of the cohort's active places written to it.

    Args:
        last: The last feedback of each client [n].
        cohort: The cohort.
        feedback: pi_i of each place of the cohort [m].
    """
    return last.at[jnp.where(cohort.active, cohort.ids, last.size)].set(feedback, mode="drop")
