"""The condition of sufficient decrease that line searches of clients and cohorts share."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

SLACK = 1e-6
"""Relative change of phi that counts as none: below it the slopes decide, which are less sensitive to rounding."""

ROUNDING = 4
"""Number of roundings of L |y| below which a gradient counts as zero."""


def decreased(old: Float[Array, ""], slope, new: Float[Array, ""], new_slope, share: float) -> Bool[Array, ""]:
    """Return whether a step decreased phi enough, by Armijo's condition or that of Hager and Zhang (2005, equation 5).

    new <= old + share slope, or phi is level and new_slope <= (2 share - 1) slope, as near the minimiser.

    Args:
        old: phi before the step.
        slope: The slope of phi along the step, before it.
        new: phi after the step.
        new_slope: The slope after the step.
        share: Share of the decrease promised by `slope` that is wanted.
    """
    level = new <= old + SLACK * jnp.abs(new)
    return (new <= old + share * slope) | (level & (new_slope <= (2 * share - 1) * slope))
