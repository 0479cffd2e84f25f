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


@pytest.mark.parametrize(("population", "sampler"), [(EQUAL, "uniform"), (UNEVEN, "size")])
def test_weights_decide_where_the_minimiser_is_not_known(population, sampler):
    advice = advise(population, 10, 10**6)
    assert advice.sampler == sampler
    assert all(row.floor is None and row.memory == "none" for row in advice.candidates)


def test_strata_are_candidates_where_there_are_some():
    strata = np.arange(100) % 10
    assert advise(EQUAL, 10, 100, sampler=t.Stratified(strata=strata).bind(EQUAL)).sampler == "stratified, shuffled"
    assert advise(t.Population(count=100, strata=strata), 10, 100).sampler == "stratified, shuffled"


def _steps(population, seed=0, spread=None):
    """v_i with sum_i lambda_i v_i = 0."""
    weights = np.full(population.count, 1 / population.count) if population.weights is None else population.weights
    steps = np.random.default_rng(seed).normal(size=(population.count, 3))
    steps = steps if spread is None else steps * spread[:, None]
    return steps - weights @ steps


def test_floors_are_mean_squared_errors_of_the_means_of_cohorts():
    """Six clients in two strata, cohorts of two, two cohorts: every pair of draws is enumerated."""
    population, strata = t.Population(count=6), np.array([0, 0, 0, 1, 1, 1])
    steps = _steps(population)
    advice = advise(population, 2, 2, sampler=t.Stratified(strata=strata).bind(population), steps=steps)
    floors = {row.name: row.floor for row in advice.candidates}

    def floor(cohorts, weight):
        single = [weight * steps[list(cohort)].sum(axis=0) / 6 for cohort in cohorts]
        one = np.mean([np.sum(v**2) for v in single])
        two = np.mean([np.sum((a + b) ** 2) / 4 for a, b in itertools.product(single, repeat=2)])
        return (one + two) / 2

    pairs = list(itertools.combinations(range(6), 2))
    assert floors["uniform"] == pytest.approx(floor(pairs, 3), rel=1e-12)
    across = list(itertools.product(range(3), range(3, 6)))
    assert floors["stratified"] == pytest.approx(floor(across, 3), rel=1e-12)
    assert list(floors.values()) == sorted(floors.values())


def test_the_floor_of_the_best_learned_draws_is_below_that_of_any_probabilities():
    steps = _steps(UNEVEN, spread=np.random.default_rng(1).lognormal(0, 1, 100))
    floors = {row.name: row.floor for row in advise(UNEVEN, 10, 40, steps=steps).candidates}
    assert floors["last-norm"] < floors["size"]
    rng = np.random.default_rng(2)
    for _ in range(5):
        p = rng.dirichlet(np.ones(100)) * 10
        p = np.clip(p, 0.01, 1)
        p = np.where(p < 1, np.minimum(p * 10 / p.sum(), 1), p)
        exact = np.sum((1 - p) / p * UNEVEN.weights**2 * np.sum(steps**2, axis=1))
        share = floors["last-norm"] / np.mean([1 / m for m in range(20, 41)])
        assert share <= exact * (1 + 1e-9)


@pytest.mark.parametrize(
    ("memory", "rounds", "share", "algorithm", "sampler"),
    [
        ("vectors", 10**3, 2.0, "fedvarp", "uniform, shuffled"),
        ("vectors", 10**3, 0.5, "fedvarp", "drift, with fedvarp"),
        ("vectors", 10**3, 0.5, "sppm", "last-norm"),
        ("scalars", 10**3, 0.5, "fedvarp", "last-norm"),
        ("none", 10**3, 0.5, "fedvarp", "uniform, shuffled"),
        ("vectors", 5, 0.5, "fedvarp", "uniform, shuffled"),
    ],
)
def test_memory_is_recommended_where_all_else_leaves_more_than_the_target(memory, rounds, share, algorithm, sampler):
    """The errors of a few clients are much larger, so that draws by their norms leave less than uniform ones in epochs.

    A sampler that goes with one algorithm is not recommended to others.
    """
    steps = np.zeros((100, 1))
    steps[:8, 0] = [1.0, -1.0] * 4
    size = 7  # does not divide the epoch
    plain = min(row.floor for row in advise(EQUAL, size, rounds, steps=steps).candidates if row.memory == "none")
    advice = advise(EQUAL, size, rounds, memory, steps=steps, target=share * plain, algorithm=algorithm)
    assert advice.sampler == sampler, advice


def test_a_sampler_with_memory_must_halve_the_error():
    """All clients alike: norms teach nothing, so that nothing is stored for them."""
    steps = np.where(np.arange(100) % 2, 1.0, -1.0)[:, None]
    assert advise(EQUAL, 10, 1000, "scalars", steps=steps, target=1e-30).sampler == "uniform, shuffled"


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
