"""What rules make of feedback whatever its unit: numbers relative to G, the size that feedback has."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.cohort import Cohort
from turnout.core.tree import positive
from turnout.samplers.probabilities.waterfilling import count


def known(bound: Any) -> Float[Array, ""]:
    """Return G = `bound`, 0 meaning that the first feedback is to tell."""
    return jnp.asarray(0.0 if bound is None else bound, jnp.result_type(float))


def estimated(bound: Float[Array, ""], cohort: Cohort, feedback: Float[Array, " m"], power: int) -> Float[Array, ""]:
    """Return G = `bound` if it is known, else G = (mean pi_i^power)^(1/power) over the cohort's active places."""
    ratios, top = jnp.where(cohort.active, feedback, 0), jnp.max(jnp.where(cohort.active, feedback, 0), initial=0)
    mean = jnp.sum((ratios / positive(top)) ** power) / positive(count(cohort.active, feedback.dtype))
    return jnp.where(bound > 0, bound, top * mean ** (1 / power))


def squares(bound: Float[Array, ""], cohort: Cohort, feedback: Float[Array, " m"]) -> Float[Array, " m"]:
    """Return the cohort's estimates (pi_i / G)^2 expansion_i of what all clients would have replied, kept finite."""
    most = float(jnp.finfo(feedback.dtype).max) ** 0.25
    ratios = jnp.minimum(jnp.where(cohort.active, feedback, 0) / positive(bound), most)
    return jnp.where(cohort.active, ratios**2 * jnp.minimum(cohort.expansion, most), 0)


def finite(a: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return a >= 0, and a large number where it overflowed."""
    return jnp.minimum(a, jnp.finfo(a.dtype).max / 4)


def latest(last: Float[Array, " n"], cohort: Cohort, feedback: Float[Array, " m"]) -> Float[Array, " n"]:
    """Return `last` with the feedback about the cohort's active places; the others write nowhere."""
    return last.at[jnp.where(cohort.active, cohort.ids, last.size)].set(feedback, mode="drop")
