"""mu_AS and sigma^2_AS of every design against enumeration, and what Cohort Squeeze says of them."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from tests.helpers.enumeration import DESIGNS, STRATA, WEIGHTS, enumerate_subsets, six
from turnout.samplers import GradientStratified
from turnout.samplers.clustering import optimal_strata
from turnout.theory.designs import convexity, inclusion, stratified_bound, variance

GENERATOR = np.random.default_rng(4)
MU = GENERATOR.uniform(0.5, 2, 6)
GRADIENTS = GENERATOR.normal(size=(6, 3))


@pytest.mark.tiers(longer=["independent-unequal"], everything=["independent-uniform"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", DESIGNS)
def test_constants_equal_enumeration(name, weights):
    population = six(weights)
    sampler = DESIGNS[name].bind(population)
    law = enumerate_subsets(sampler, population)
    p = [sum(chance for chance, chosen, _ in law if i in chosen) for i in range(6)]
    np.testing.assert_allclose(inclusion(sampler, population), p, rtol=1e-12)
    least = min(weight @ MU[list(chosen)] for _, chosen, weight in law)
    assert convexity(sampler, population, MU) == pytest.approx(least, rel=1e-12)
    moment = sum(chance * np.sum((weight @ GRADIENTS[list(chosen)]) ** 2) for chance, chosen, weight in law)
    assert variance(sampler, population, GRADIENTS) == pytest.approx(moment, rel=1e-12)


def test_the_papers_example_where_strata_are_worst():
    """Four gradients (0, 1), (1, 0), (0, -1), (-1, 0), the opposite ones together (Cohort Squeeze, appendix F.8)."""
    population = t.Population(count=4)
    gradients = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]])
    samplers = t.Stratified(strata=[0, 1, 0, 1]), t.Nice(2), t.Block(blocks=[0, 1, 0, 1])
    found = [variance(sampler.bind(population), population, gradients) for sampler in samplers]
    np.testing.assert_allclose(found, [1 / 2, 1 / 3, 0], atol=1e-15)


def test_coins_that_may_leave_nobody_have_no_convexity():
    population = six("uniform")
    assert convexity(t.Independent(probability=0.9).bind(population), population, MU) == 0
    assert convexity(t.Independent(probability=1.0).bind(population), population, MU) == pytest.approx(MU.mean())


def test_nice_interpolates_between_one_client_and_all():
    """mu_NICE grows from min mu_i to the mean and sigma^2 falls as (n / tau - 1) / (n - 1) (Cohort Squeeze, section 2.3)."""
    population, centred = six("uniform"), GRADIENTS - GRADIENTS.mean(0)
    samplers = [t.Nice(tau).bind(population) for tau in range(1, 7)]
    mu = [convexity(sampler, population, MU) for sampler in samplers]
    assert mu[0] == pytest.approx(MU.min()) and mu[-1] == pytest.approx(MU.mean()) and np.all(np.diff(mu) > 0)
    sigma2 = np.array([variance(sampler, population, centred) for sampler in samplers])
    shares = [(6 / tau - 1) / 5 for tau in range(1, 7)]
    np.testing.assert_allclose(sigma2, np.mean(np.sum(centred**2, axis=1)) * np.array(shares), atol=1e-15)


@pytest.mark.parametrize("weights", [None, np.array([0.1, 0.2, 0.3, 0.4])])
def test_importance_has_the_largest_convexity_of_one_client(weights):
    """mu_IS = sum_i lambda_i mu_i >= mu_NS for any probabilities (Cohort Squeeze, appendix B.2)."""
    matrices = np.array([1.0, 2.0, 3.0, 6.0])[:, None, None] * np.eye(2)
    problem = t.Quadratic.of(matrices, np.ones((4, 2)), weights=weights)
    mu, share = problem.constants().convexity, np.full(4, 1 / 4) if weights is None else weights
    best = convexity(t.Importance().fit(problem), problem.population, mu)
    assert best == pytest.approx(share @ mu)
    for p in np.random.default_rng(0).dirichlet(np.ones(4), size=20):
        assert convexity(t.NonUniform(p).bind(problem.population), problem.population, mu) <= best


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(WEIGHTS)))
def test_lemma_1_bounds_the_variance(seed, weights):
    """Where sum lambda_i g_i = 0."""
    population, gradients = six(weights), np.random.default_rng(seed).normal(size=(6, 2))
    share = np.full(6, 1 / 6) if population.weights is None else population.weights
    gradients = gradients - share @ gradients
    sampler = t.Stratified(strata=STRATA).bind(population)
    assert variance(sampler, population, gradients) <= stratified_bound(sampler, population, gradients) * (1 + 1e-12)


def test_lemma_1_on_two_strata_by_hand():
    """Strata {0, 1} and {2, 3, 4}, g = (1, 3 | 0, 3, -7): (2 / 25) (4 x 1 + 9 x (17/3)^2)."""
    population = t.Population(count=5)
    gradients = np.array([[1.0], [3.0], [0.0], [3.0], [-7.0]])
    bound = stratified_bound(t.Stratified(strata=[0, 0, 1, 1, 1]).bind(population), population, gradients)
    assert bound == pytest.approx(2 / 25 * (4 * 1 + 9 * (17 / 3) ** 2))


@pytest.mark.longer
@given(st.integers(0, 2**32 - 1), st.sampled_from([(4, 2), (9, 3), (12, 3), (12, 6), (16, 4), (30, 5)]))
def test_lemma_2_optimal_strata_are_no_worse_than_nice(seed, shape):
    n, b = shape
    population, gradients = t.Population(count=n), np.random.default_rng(seed).standard_t(2, size=(n, 2))
    gradients = gradients - gradients.mean(0)
    strata = t.Stratified(strata=optimal_strata(gradients, b)).bind(population)
    nice = variance(t.Nice(b).bind(population), population, gradients)
    assert variance(strata, population, gradients) <= nice * (1 + 1e-9)


def best_partition(gradients, b) -> tuple[float, float]:
    """sigma^2 of stratified sampling at the partition into b equal parts where it is least, and that of block sampling there."""
    population, n = t.Population(count=len(gradients)), len(gradients)
    partitions = {
        tuple(np.unique(p, return_inverse=True)[1])
        for p in itertools.product(range(b), repeat=n)
        if p[0] == 0 and np.all(np.bincount(p, minlength=b) == n // b)
    }
    spread = lambda p: variance(t.Stratified(strata=list(p)).bind(population), population, gradients)  # noqa: E731
    best = min(partitions, key=spread)
    return spread(best), variance(t.Block(list(best)).bind(population), population, gradients)


@given(st.integers(0, 2**32 - 1))
def test_example_2_optimal_strata_of_two_are_no_worse_than_their_blocks(seed):
    """Four clients in two strata of two (Cohort Squeeze, Example 2), over all partitions."""
    gradients = np.random.default_rng(seed).standard_t(2, size=(4, 3))
    strata, blocks = best_partition(gradients - gradients.mean(0), 2)
    assert strata <= blocks * (1 + 1e-9)


@pytest.mark.everything
def test_the_papers_simulation_of_three_strata():
    """n = 9, b = 3, d = 10, normal gradients, 1,000 trials; their mean, 0 at a minimiser, would be in both sides."""
    generator = np.random.default_rng(9)
    for _ in range(1000):
        gradients = generator.normal(size=(9, 10))
        gradients = gradients - gradients.mean(0)
        strata = np.asarray(optimal_strata(gradients, 3))
        sums = np.array([gradients[strata == j].sum(0) for j in range(3)])
        blocks = np.sum(sums**2) / 3 / 3**2
        within = sum(np.sum((gradients[strata == j] - sums[j] / 3) ** 2) / 3 for j in range(3)) / 3**2
        assert within <= blocks * (1 + 1e-9)


def test_every_equal_partition_averages_to_nice():
    """The mean over all partitions into equal strata is NICE's variance, which proves Lemma 2."""
    population = six("uniform")
    partitions = [p for p in itertools.product(range(3), repeat=6) if np.all(np.bincount(p, minlength=3) == 2)]
    found = [variance(t.Stratified(strata=list(p)).bind(population), population, GRADIENTS) for p in partitions]
    assert np.mean(found) == pytest.approx(variance(t.Nice(3).bind(population), population, GRADIENTS))


def test_a_design_of_many_clients_is_cheap():
    """10^5 clients, one at a time: no array of n^2 numbers."""
    population = t.Population(count=10**5)
    p = np.arange(1.0, 10**5 + 1)
    sampler = t.NonUniform(p / p.sum()).bind(population)
    assert convexity(sampler, population, sampler.probability * 3) == pytest.approx(3 / 10**5)


@pytest.mark.parametrize("sampler", [t.Delegate(), GradientStratified(2)])
def test_designs_without_theory_say_so(sampler):
    population = six("uniform")
    with pytest.raises(t.UserError, match=f"no theory here is about cohorts of {type(sampler).__name__}"):
        variance(sampler.bind(population), population, GRADIENTS)


@pytest.mark.parametrize("sampler", [t.Stratified(strata=STRATA, size=2), t.Block(blocks=STRATA)])
def test_lemma_1_is_about_one_client_of_each_stratum(sampler):
    population = six("uniform")
    with pytest.raises(t.UserError, match="every stratum"):
        stratified_bound(sampler.bind(population), population, GRADIENTS)


@pytest.mark.parametrize("sampler", [t.Independent(0.3), t.WithReplacement([0.1, 0.1, 0.2, 0.2, 0.1, 0.3], size=2)])
def test_constants_are_in_double_precision_whatever_that_of_the_caller(sampler):
    population = six("uniform")
    with jax.enable_x64(False):
        single = inclusion(sampler.bind(population), population)
    np.testing.assert_array_equal(single, inclusion(sampler.bind(population), population))
    if isinstance(sampler, t.Independent):
        np.testing.assert_array_equal(single, np.full(6, 0.3))
