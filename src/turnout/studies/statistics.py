"""Statistics of costs over seeds, some of them infinite: medians, quartiles, and bootstrap intervals.

Every median and quartile is a value that occurs, so that infinity does no harm: of an even number of values the median is the
larger of the two in the middle. Resamples are those of a generator with a fixed seed, so that results repeat.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

LEVEL = 0.95
RESAMPLES = 9999
FEWEST = 5
"""The seeds below which nothing is decided: the range of m values misses their median with probability 2^(1 - m)."""


class Interval(NamedTuple):
    """The bounds of an interval."""

    low: float
    high: float


class Ratio(NamedTuple):
    """A ratio of two medians and its interval; NaN and from 0 to infinity where neither is finite, or the second is below 0."""

    value: float
    interval: Interval
    seeds: int

    @property
    def decided(self) -> bool:
        """Whether there are enough seeds to decide anything."""
        return self.seeds >= FEWEST


def median(values: Float[np.ndarray, "... m"]) -> Float[np.ndarray, "..."]:
    """Return the median over the last axis."""
    return np.sort(values, axis=-1)[..., values.shape[-1] // 2]


def quartiles(values: Float[np.ndarray, " m"]) -> Interval:
    """Return the lower quartile, rounded down to a value that occurs, and the upper one, rounded up."""
    return Interval(_quantile(values, 0.25, "lower"), _quantile(values, 0.75, "higher"))


def interval(values: Float[np.ndarray, " m"]) -> Interval:
    """Return the bootstrap interval of the median, by the percentiles of `RESAMPLES` resamples."""
    return _percentiles(median(values[resamples(values.size)]))


def ratio(values: Float[np.ndarray, " m"], others: Float[np.ndarray, " m"]) -> Ratio:
    """Return the ratio of the medians of `values` and `others`; their entries are of the same seeds, which are resampled."""
    if not values.size:
        return Ratio(np.nan, Interval(0.0, np.inf), 0)
    chosen = resamples(values.size)
    value, drawn = _quotient(median(values), median(others)), _quotient(median(values[chosen]), median(others[chosen]))
    low, high = np.where(np.isnan(drawn), 0, drawn), np.where(np.isnan(drawn), np.inf, drawn)
    return Ratio(float(value), Interval(_percentiles(low).low, _percentiles(high).high), values.size)


def _quotient(values: Float[np.ndarray, "..."], others: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Return values / others; NaN for others below 0, of which a larger multiple is less."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(others < 0, np.nan, values / others)


@cache
def resamples(size: int) -> Int[np.ndarray, "resamples m"]:
    """Return `RESAMPLES` draws of `size` numbers below `size`, with replacement."""
    return np.random.default_rng(0).integers(0, size, (RESAMPLES, size))


def _percentiles(values: Float[np.ndarray, " resamples"]) -> Interval:
    return Interval(_quantile(values, (1 - LEVEL) / 2, "lower"), _quantile(values, (1 + LEVEL) / 2, "higher"))


def _quantile(values: np.ndarray, share: float, method) -> float:
    return float(np.quantile(values, share, method=method))
