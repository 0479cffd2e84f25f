"""Medians, quartiles and bootstrap intervals against NumPy by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.studies.statistics import FEWEST, RESAMPLES, interval, median, quartiles, ratio, resamples

COSTS = st.lists(st.integers(1, 1000).map(float) | st.just(np.inf), min_size=1, max_size=9).map(np.array)


@given(COSTS)
def test_medians_and_quartiles_occur_and_are_ordered(values):
    low, high = quartiles(values)
    middle = median(values)
    assert {low, float(middle), high} <= {*values} and low <= middle <= high
    # At least half of the values are on each side of the median.
    assert 2 * np.sum(values <= middle) >= values.size and 2 * np.sum(values >= middle) >= values.size


@given(st.lists(st.integers(1, 1000).map(float), min_size=1, max_size=9).filter(lambda v: len(v) % 2 == 1).map(np.array))
def test_of_an_odd_number_of_values_the_median_is_that_of_numpy(values):
    assert median(values) == np.median(values)


@pytest.mark.longer
@given(COSTS)
def test_the_interval_is_within_the_values_and_holds_the_median(values):
    low, high = interval(values)
    assert values.min() <= low <= median(values) <= high <= values.max()


def test_the_interval_is_that_of_resamples_one_by_one():
    values = np.array([3.0, 1, 4, 1, 5, 9, 2])
    medians = sorted(sorted(values[chosen])[3] for chosen in resamples(7))
    low, high = interval(values)
    assert low == medians[int(np.floor(0.025 * (RESAMPLES - 1)))] and high == medians[int(np.ceil(0.975 * (RESAMPLES - 1)))]


def test_the_interval_of_the_median_of_many_values_covers_it_as_often_as_it_says():
    generator = np.random.default_rng(1)
    covered = [low <= 0.0 <= high for low, high in (interval(generator.normal(size=25)) for _ in range(200))]
    assert 0.9 <= np.mean(covered) <= 0.99


def test_ratios_are_paired_by_seed():
    # Seeds differ much more than methods do: paired, the ratio is exact.
    rival = np.array([1.0, 10, 100, 1000, 10000])
    found = ratio(rival / 2, rival)
    assert (found.value, *found.interval) == (0.5, 0.5, 0.5) and found.decided
    crossed = ratio(rival[::-1] / 2, rival)
    assert crossed.interval.low < 0.5 < crossed.interval.high


@pytest.mark.parametrize(
    ("mine", "other", "value", "low", "high"),
    [
        ([2.0] * 5, [np.inf] * 5, 0.0, 0.0, 0.0),
        ([np.inf] * 5, [2.0] * 5, np.inf, np.inf, np.inf),
        ([np.inf] * 5, [np.inf] * 5, np.nan, 0.0, np.inf),
        # -10 is less than 0.9 times -5, though their quotient is 2.
        ([-10.0] * 5, [-5.0] * 5, np.nan, 0.0, np.inf),
        ([-1.0] * 5, [2.0] * 5, -0.5, -0.5, -0.5),
        ([0.0] * 5, [2.0] * 5, 0.0, 0.0, 0.0),
    ],
)
def test_ratios_of_costs_that_are_infinite_or_not_above_0(mine, other, value, low, high):
    found = ratio(np.array(mine), np.array(other))
    np.testing.assert_equal([found.value, *found.interval], [value, low, high])


def test_few_seeds_decide_nothing():
    assert not ratio(np.ones(0), np.ones(0)).decided
    assert not ratio(np.ones(FEWEST - 1), 2 * np.ones(FEWEST - 1)).decided and ratio(np.ones(FEWEST), np.ones(FEWEST)).decided
