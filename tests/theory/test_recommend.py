"""The recommended sampler, and the numbers that it rests on."""

import itertools

import numpy as np
import pytest

import turnout as t
from turnout.theory.recommend import advise, expected_size, variance

SIZES = np.random.default_rng(0).lognormal(0, 2, 100)
UNEVEN = t.Population(count=100, weights=SIZES / SIZES.sum())
EQUAL = t.Population(count=100)


def test_the_variance_is_that_of_independent_coins():
    p, weights = np.array([0.2, 0.5, 1.0, 0.7]), np.array([0.1, 0.2, 0.3, 0.4])
    found = 0.0
    for heads in itertools.product((0, 1), repeat=4):
        chance = np.prod(np.where(heads, p, 1 - p))
        # Orthogonal replies of length one: each coordinate is a coin of its own.
        found += chance * np.sum(weights**2 * (np.array(heads) / p - 1) ** 2)
    assert variance(p, weights) == pytest.approx(found, rel=1e-12)


def test_the_gain_is_one_for_equal_weights_and_never_below():
    assert advise(EQUAL, 10, 100).gain == pytest.approx(1, rel=1e-12)
    for size in (1, 5, 20, 90):
        assert advise(UNEVEN, size, 100).gain >= 1
    half = t.Population(count=4, weights=np.array([0.5, 0.5, 1e-9, 1e-9]) / (1 + 2e-9))
    assert advise(half, 2, 100).gain > 1e6


@pytest.mark.parametrize(
    ("population", "rounds", "memory", "sampler"),
    [
        (EQUAL, 10**6, "none", "uniform"),
        (UNEVEN, 10**6, "none", "size"),
        (UNEVEN, 1, "vectors", "size"),
        (EQUAL, 1, "vectors", "uniform"),
        (EQUAL, 10**6, "scalars", "last-norm"),
        (EQUAL, 10**6, "vectors", "drift"),
    ],
)
def test_more_memory_and_more_visits_are_used(population, rounds, memory, sampler):
    assert advise(population, 10, rounds, memory).sampler == sampler


def test_everybody_is_asked_where_a_cohort_holds_all():
    assert advise(UNEVEN, 100, 10).sampler == "full"


@pytest.mark.parametrize(
    ("sampler", "size"),
    [
        (t.Nice(size=7), 7),
        (t.Independent(size=6.5), 6.5),
        (t.Independent(size=6.5, probability=t.KVib(bound=1.0, rounds=10)), 6.5),
        (t.Stratified(strata=np.arange(100) % 5), 5),
    ],
)
def test_the_size_of_a_cohort_is_the_sum_of_its_probabilities(sampler, size):
    assert expected_size(sampler.bind(EQUAL), EQUAL) == pytest.approx(size)
