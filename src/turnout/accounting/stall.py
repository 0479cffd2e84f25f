"""Runs that come no nearer to their target."""

import math

import numpy as np
from jaxtyping import Float

QUARTERS = 16
"""A run stalls if it would need so many more quarters, four times its length, to reach the target."""

FEWEST = 20
"""Rows of a run of which this can be said."""


def stalled(values: Float[np.ndarray, " rows"], below: float) -> tuple[float, float] | None:
    """Return the medians of the last two quarters of `values` if these fall too slowly to come below `below`, else None.

    With medians a and b, a run comes below after about log(b / below) / log(a / b) more quarters.

    Args:
        values: The metric of a run that has not reached its target; smaller is better.
        below: The target.
    """
    quarter = len(values) // 4
    if len(values) < FEWEST or not np.isfinite(values).all():
        return None
    before, last = (float(np.median(part)) for part in (values[-2 * quarter : -quarter], values[-quarter:]))
    if last <= below:
        return None
    gain = math.log(before / last) if before > last else 0.0
    return (before, last) if gain * QUARTERS < math.log(last / below) else None
