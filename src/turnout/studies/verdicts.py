"""What numbers that are played again say of published ones."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from turnout.studies.published import NUMBERS

EQUAL, WITHIN, OPEN, DIFFERS = VERDICTS = ("equal", "within", "open", "differs")

TOLERANCE = 1e-6
"""The relative difference up to which numbers are equal."""

ROUNDING = 1e-14
"""The difference up to which numbers are equal where they are 0 but for rounding, such as the regret of all clients."""


def verdict(published: Mapping[str, Any], now: Mapping[str, Any], costs: Float[np.ndarray, " m"], exact: bool) -> str:
    """Return what a row that is played again says of the published one.

    "equal": all its numbers agree up to the tolerance. "within": its median lies between the published quartiles, or in the
    interval. "open": it does not, but a part of the seeds may do so. "differs": the published numbers are none of these runs.

    Args:
        published: The row of the table.
        now: The same row of the runs.
        costs: The cost of each run, of which there may be fewer than published seeds.
        exact: Whether numbers have to come out again; if not, those "within" are good enough.
    """
    whole = costs.size == published["seeds"]
    if whole and all(math.isclose(published[name], now[name], rel_tol=TOLERANCE, abs_tol=ROUNDING) for name in NUMBERS):
        return EQUAL
    if exact and (whole or not possible(published, costs)):
        return DIFFERS
    least = min(published["low"], published["interval_low"])
    most = max(published["high"], published["interval_high"])
    if _below(least) <= now["cost"] <= _above(most):
        return WITHIN
    return DIFFERS if whole else OPEN


def possible(published: Mapping[str, Any], costs: Float[np.ndarray, " m"]) -> bool:
    """Return whether `costs` can be among those that have the published median, quartiles and number that arrived.

    Of n sorted costs the median is the one at place n // 2, and the quartiles are those at the places (n - 1) / 4, rounded down,
    and 3 (n - 1) / 4, rounded up, all counted from 0. So each place has bounds, and `costs` need places of their own.
    """
    n, reached = int(published["seeds"]), int(published["reached"])
    least, most = np.full(n, -np.inf), np.full(n, np.inf)
    places = [("low", (n - 1) // 4), ("cost", n // 2), ("high", -(-3 * (n - 1) // 4))]
    for name, place in places:
        least[place:] = published[name]
    for name, place in reversed(places):
        most[: place + 1] = published[name]
    least[reached:] = np.inf
    most[:reached] = np.minimum(most[:reached], np.finfo(float).max / 2)
    place = 0
    for cost in np.sort(costs):
        while place < n and not _below(least[place]) <= cost <= _above(most[place]):
            place += 1
        if place == n:
            return False
        place += 1
    return True


def _below(number: float) -> float:
    """Return the least number that is equal to one up to the tolerance."""
    return -_above(-number)


def _above(number: float) -> float:
    """Return the largest number that is equal to one up to the tolerance."""
    return number * (1 + math.copysign(TOLERANCE, number)) + ROUNDING
