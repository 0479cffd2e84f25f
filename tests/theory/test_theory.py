"""The theorems hold where they are computed: on runs of turnout, and on NumPy simulations that are run here."""

import itertools
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import turnout as t
from tests.helpers.gradients import client_gradient
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.problems.at_optimum import AtOptimum, at_optimum
from turnout.problems.row_formats import SparseRows
from turnout.runs.setup import bind
from turnout.theory.bounds import (
    best_s,
    complexity,
    lemma_13,
    neighbourhood,
    neighbourhood_bound,
    theorem_1,
    theorem_2,
    tolerance,
)
from turnout.theory.cohort_mean_weights import cohort_mean_weights
from turnout.theory.constants import DesignConstants, constants_of
from turnout.theory.sampling_error import sampling_floor

STRATA = [0, 1, 1, 2, 2, 2, 0, 2]
COINS = np.linspace(0.1, 1.0, 8)
SUBSETS = [[0, 1, 2], [2, 3, 4, 5], [5, 6, 7, 0], [4]]
SAMPLERS = {
    "full": t.Full(),
    "nice": t.Nice(2),
    "stratified": t.Stratified(strata=STRATA),
    "block": t.Block(blocks=STRATA, probability=[0.2, 0.5, 0.3]),
    "nonuniform": t.NonUniform((COINS / COINS.sum()).tolist()),
    "importance": t.Importance(),
    "subsets": t.Subsets(SUBSETS, [0.4, 0.3, 0.2, 0.1]),
    "independent": t.Independent(probability=COINS.tolist()),
    "equal coins": t.Independent(probability=0.3),
}
CONVEX = [name for name in SAMPLERS if name not in ("independent", "equal coins")]
POSITIVE = st.floats(1e-3, 1e3)


@cache
def quadratic() -> t.Problem:
    """Eight clients with mu_i from 0.5 to 2 and L_i ten times that."""
    matrices, vectors = t.Quadratic.random(8, 3, seed=5).rows
    scale = np.geomspace(0.5, 2.0, 8)
    return t.Quadratic.of(scale[:, None, None] * matrices, vectors)


@cache
def minimum() -> AtOptimum:
    """The derivatives of the quadratics at their minimiser."""
    return at_optimum(quadratic())


def known_of(sampler: t.Sampler) -> DesignConstants:
    """The constants of a sampler on the quadratics."""
    return constants_of(quadratic(), bind(sampler, quadratic()), minimum())


def design(name: str) -> list[tuple[float, list[int]]]:
    """Every cohort of a sampler on the quadratics, with its probability."""
    strata = [np.flatnonzero(np.array(STRATA) == j).tolist() for j in range(3)]
    coins = np.full(8, 0.3) if name == "equal coins" else COINS
    mu = np.geomspace(0.5, 2.0, 8)
    lists = {
        "full": ([range(8)], [1.0]),
        "nice": (list(itertools.combinations(range(8), 2)), np.full(28, 1 / 28)),
        "stratified": (list(itertools.product(*strata)), np.full(16, 1 / 16)),
        "block": (strata, [0.2, 0.5, 0.3]),
        "nonuniform": ([[i] for i in range(8)], COINS / COINS.sum()),
        "importance": ([[i] for i in range(8)], mu / mu.sum()),
        "subsets": (SUBSETS, [0.4, 0.3, 0.2, 0.1]),
    }
    if name in lists:
        return [(float(p), list(cohort)) for cohort, p in zip(*lists[name], strict=True)]
    subsets = [[i for i in range(8) if bits >> i & 1] for bits in range(256)]
    return [(float(np.prod(np.where(np.isin(np.arange(8), s), coins, 1 - coins))), s) for s in subsets]


def weights_of(cohorts: list[tuple[float, list[int]]]) -> np.ndarray:
    """1 / (n p_i) for the members of each cohort, [cohorts, n]."""
    members = np.array([np.isin(np.arange(8), cohort) for _, cohort in cohorts])
    return members / (8 * np.array([p for p, _ in cohorts]) @ members)


def logistic(sparse=False, weights=None) -> t.Problem:
    """Eight clients of different sizes, so that rows lie in tiles."""
    generator = np.random.default_rng(7)
    sizes = np.array([3, 5, 40, 7, 9, 1, 2, 13])
    rows = int(sizes.sum())
    labels = np.where(generator.normal(size=rows) > 0, 1.0, -1.0)
    dataset = Dataset("made", generator.normal(size=(rows, 4)), labels)
    split = Split(np.arange(rows), np.concatenate([[0], np.cumsum(sizes)]))
    problem = t.Logistic.of(dataset, split, mu=0.5, weights=weights)
    if not sparse:
        return problem
    from scipy.sparse import csr_array

    return replace(problem, rows=(SparseRows.of(csr_array(problem.rows[0])), problem.rows[1]))


def confident(errors: np.ndarray) -> np.ndarray:
    """What the mean over the first axis exceeds with near certainty."""
    return errors.mean(0) - 4 * errors.std(0) / np.sqrt(len(errors))


class Simulated:
    """Quadratics, their minimiser, and exact proximal points, in NumPy."""

    def __init__(self, problem: t.Problem):
        self.a, self.b = problem.rows
        self.d = self.b.shape[1]
        self.x = np.linalg.solve(self.a.mean(0), self.b.mean(0))
        self.gradients = np.einsum("nij,j->ni", self.a, self.x) - self.b

    def prox(self, gamma, weights, x):
        """prox of gamma sum_i weights_i f_i at the points x [runs, d], for weights [runs, n]."""
        a = np.tensordot(weights, self.a, axes=1) + np.eye(self.d) / gamma
        return np.linalg.solve(a, (weights @ self.b + x / gamma)[..., None])[..., 0]

    def distance(self, x):
        return np.sum((x - self.x) ** 2, axis=-1)


def nice_weights(generator, runs, n, size):
    """1 / size for each of `size` uniform clients, [runs, n]."""
    ranks = generator.random((runs, n)).argsort(axis=1).argsort(axis=1)
    return (ranks < size) / size


@pytest.mark.parametrize("name", CONVEX)
def test_exact_proximal_steps_stay_below_theorem_1(name):
    problem, runs, cohorts = quadratic(), 400, design(name)
    world, known = Simulated(problem), known_of(SAMPLERS[name])
    for gamma in (0.1, 1.0, 10.0):
        generator = np.random.default_rng(2)
        x, errors = np.zeros((runs, world.d)), []
        for _ in range(12):
            errors.append(world.distance(x))
            drawn = generator.choice(len(cohorts), size=runs, p=[p for p, _ in cohorts])
            x = world.prox(gamma, weights_of(cohorts)[drawn], x)
        bound = theorem_1(np.arange(12), gamma, known.mu, known.sigma2, known.distance2)
        assert np.all(confident(np.stack(errors, axis=1)) <= bound * (1 + 1e-9))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "sampler"), [(quadratic, "nice"), pytest.param(logistic, "stratified", marks=pytest.mark.slow)]
)
def test_a_run_of_sppm_stays_below_theorem_1(problem, sampler):
    check_sppm(t.Sppm(SAMPLERS[sampler], t.solvers.Bfgs(), 1.0, inner=25), problem(), [0.1, 1.0, 10.0], 60)


def check_sppm(algorithm, problem, gammas, seeds):
    """Require the mean over the seeds, four standard errors less, to be within theorem 1, or 2 of FedProxSppm, for each gamma."""
    sampler, known = bind(algorithm.sampler, problem), constants_of(problem, bind(algorithm.sampler, problem))
    swept = t.sweep(
        algorithm,
        problem,
        {"gamma": gammas},
        seeds=range(seeds),
        rounds=9,
        metrics=("distance",),
    )
    errors = np.stack([trace.columns["distance"] for trace in swept.traces]).reshape(len(gammas), seeds, 10)
    np.testing.assert_allclose(errors[:, :, 0], known.distance2)
    for gamma, measured in zip(gammas, errors, strict=True):
        if isinstance(algorithm, t.FedProxSppm):
            q = cohort_mean_weights(sampler, problem.population)
            bound = theorem_2(np.arange(10), gamma, known.convexity, q, known.gradient_norms2, known.distance2)
        else:
            bound = theorem_1(np.arange(10), gamma, known.mu, known.sigma2, known.distance2)
        assert np.all(confident(measured) <= bound * (1 + 1e-9))


@pytest.mark.parametrize("epsilon_share", [0.05, 0.3, 2.0])
def test_the_recommended_gamma_reaches_the_target_in_the_predicted_rounds(epsilon_share):
    problem = quadratic()
    world, known = Simulated(problem), known_of(t.Nice(2))
    epsilon = epsilon_share * known.sigma2 / known.mu**2
    distance2 = 20 * epsilon
    gamma, rounds = complexity(epsilon, known.mu, known.sigma2, distance2)
    generator = np.random.default_rng(0)
    x = np.tile(world.x + np.sqrt(distance2 / world.d), (500, 1))
    for _ in range(rounds):
        x = world.prox(gamma, nice_weights(generator, 500, 8, 2), x)
    assert rounds >= 1 and confident(world.distance(x)[:, None])[0] <= epsilon


@given(POSITIVE, POSITIVE, st.just(0.0) | POSITIVE, POSITIVE)
def test_theorem_1_promises_what_complexity_says(epsilon, mu, sigma2, distance2):
    gamma, rounds = complexity(epsilon, mu, sigma2, distance2)
    assert gamma > 0 and rounds >= 0
    if rounds:
        # A power loses as many roundings as its exponent has units.
        assert theorem_1(rounds, gamma, mu, sigma2, distance2) <= epsilon * (1 + 1e-9 + rounds * np.finfo(float).eps)
    else:
        assert distance2 <= epsilon


@given(POSITIVE, POSITIVE, POSITIVE)
def test_the_neighbourhood_is_below_both_of_its_bounds(gamma, mu, sigma2):
    assert neighbourhood(gamma, mu, sigma2) <= neighbourhood_bound(gamma, mu, sigma2) * (1 + 1e-12)
    assert neighbourhood_bound(gamma, mu, sigma2) == min(sigma2 / mu**2, gamma * sigma2 / mu)


@given(POSITIVE, POSITIVE, st.floats(1e-6, 1e3), POSITIVE)
def test_the_tolerance_costs_a_quarter_of_the_target(gamma, mu, epsilon, sigma2):
    """At s = gamma mu the floor with b is at most epsilon / 4 above the floor without."""
    assume(gamma * mu < 1e3)
    b, s = tolerance(epsilon, gamma, mu), gamma * mu
    alone = lemma_13(0, gamma, mu, 0.0, b, s, 0.0)
    assert alone == pytest.approx(epsilon / 4, rel=1e-9)
    without = lemma_13(0, gamma, mu, sigma2, 0.0, s, 0.0)
    assert lemma_13(0, gamma, mu, sigma2, b, s, 0.0) <= (without + epsilon / 4) * (1 + 1e-9)


@given(POSITIVE, POSITIVE, st.just(0.0) | POSITIVE, POSITIVE, st.floats(0.001, 0.999))
def test_the_best_s_has_the_lowest_floor(gamma, mu, sigma2, b, share):
    s, excess = best_s(gamma, mu, sigma2, b), gamma * mu * (2 + gamma * mu)
    assert 0 < s < excess
    lowest = lemma_13(0, gamma, mu, sigma2, b, s, 0.0)
    assert lowest <= lemma_13(0, gamma, mu, sigma2, b, share * excess, 0.0) * (1 + 1e-9)
    assert lowest >= neighbourhood(gamma, mu, sigma2)


@pytest.mark.parametrize("adversarial", [True, False])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0])
def test_inexact_steps_stay_below_lemma_13(gamma, adversarial):
    """Every step misses its prox by sqrt(b): straight away from x*, or in a random direction."""
    problem, b, runs = quadratic(), 0.05, 400
    world, known = Simulated(problem), known_of(t.Nice(2))
    generator = np.random.default_rng(1)
    x, errors = np.zeros((runs, world.d)), []
    for _ in range(15):
        errors.append(world.distance(x))
        x = world.prox(gamma, nice_weights(generator, runs, 8, 2), x)
        way = x - world.x if adversarial else generator.normal(size=x.shape)
        x = x + np.sqrt(b) * way / np.linalg.norm(way, axis=1, keepdims=True)
    measured = confident(np.stack(errors, axis=1))
    best, excess = best_s(gamma, known.mu, known.sigma2, b), gamma * known.mu * (2 + gamma * known.mu)
    for s in (best, gamma * known.mu, 0.1 * excess, 0.9 * excess):
        assert np.all(measured <= lemma_13(np.arange(15), gamma, known.mu, known.sigma2, b, s, known.distance2))


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_shares_are_those_of_the_enumerated_design(name):
    problem = quadratic()
    expected = np.zeros(8)
    for probability, cohort in design(name):
        expected[cohort] += probability / max(1, len(cohort))
    np.testing.assert_allclose(cohort_mean_weights(bind(SAMPLERS[name], problem), problem.population), expected, rtol=1e-12)


def test_shares_of_unequal_clients_are_refused_where_they_are_not_known():
    problem = logistic(weights=np.arange(1.0, 9.0))
    with pytest.raises(t.UserError, match="equal weight"):
        cohort_mean_weights(t.Nice(2), problem.population)
    np.testing.assert_allclose(cohort_mean_weights(t.Full(), problem.population), np.arange(1, 9) / 36)
    block, weight, block_weight = bind(t.Block(blocks=STRATA), problem), np.arange(1, 9), np.array([8, 5, 23])
    expected = weight / block_weight[STRATA] / 3
    np.testing.assert_allclose(cohort_mean_weights(block, problem.population), expected)


@pytest.mark.tiers(longer=["full", "nice", "block", "nonuniform", "importance", "subsets", "independent", "equal coins"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_averaged_proximal_points_stay_below_theorem_2(name):
    problem, runs = quadratic(), 400
    world, known = Simulated(problem), known_of(t.Full())
    cohorts = design(name)
    q = cohort_mean_weights(bind(SAMPLERS[name], problem), problem.population)
    for gamma in (0.1, 1.0, 10.0):
        generator = np.random.default_rng(3)
        x, errors = np.zeros((runs, world.d)), []
        for _ in range(12):
            errors.append(world.distance(x))
            drawn = generator.choice(len(cohorts), size=runs, p=[probability for probability, _ in cohorts])
            weights = np.array([np.isin(np.arange(8), cohorts[k][1]) / max(1, len(cohorts[k][1])) for k in drawn])
            points = np.stack([world.prox(gamma, np.tile(row, (runs, 1)), x) for row in np.eye(8)], axis=1)
            x = np.where(weights.sum(1, keepdims=True) > 0, np.einsum("rn,rnd->rd", weights, points), x)
        bound = theorem_2(np.arange(12), gamma, known.convexity, q, known.gradient_norms2, known.distance2)
        assert np.all(confident(np.stack(errors, axis=1)) <= bound * (1 + 1e-9))


@pytest.mark.longer
@pytest.mark.parametrize(("sparse", "weights"), [(False, np.arange(1.0, 9.0)), (True, None)])
def test_derivatives_at_the_optimum_are_those_of_plain_numpy(sparse, weights):
    problem, at = logistic(weights=weights), at_optimum(logistic(sparse, weights))
    gradients = np.stack([client_gradient(problem, i, at.x) for i in range(8)])
    np.testing.assert_allclose(at.gradients, gradients, atol=1e-12)
    share = np.full(8, 1 / 8) if weights is None else weights / weights.sum()
    np.testing.assert_allclose(share @ at.gradients, 0, atol=1e-11)

    def slope(x):
        return sum(share[i] * client_gradient(problem, i, x) for i in range(8))

    steps = 1e-5 * np.eye(4)
    numeric = np.stack([(slope(at.x + e) - slope(at.x - e)) / 2e-5 for e in steps])
    np.testing.assert_allclose(at.hessian, numeric, atol=1e-8)


def test_constants_are_those_of_the_problem():
    problem = quadratic()
    world, known = Simulated(problem), known_of(t.Nice(2))
    eigenvalues = np.linalg.eigvalsh(world.a)
    assert known.clients == 8
    np.testing.assert_allclose(known.convexity, eigenvalues[:, 0])
    np.testing.assert_allclose(known.smoothness, eigenvalues[:, -1])
    np.testing.assert_allclose(known.gradient_norms2, np.sum(world.gradients**2, axis=1))
    assert known.distance2 == pytest.approx(np.sum(world.x**2))


@pytest.mark.parametrize("name", CONVEX)
def test_the_constants_of_a_design_are_those_of_its_enumerated_cohorts(name):
    problem, cohorts = quadratic(), design(name)
    world, known = Simulated(problem), known_of(SAMPLERS[name])
    weights = weights_of(cohorts)
    assert known.mu == pytest.approx(np.min(weights @ known.convexity))
    norms = np.sum((weights @ world.gradients) ** 2, axis=1)
    assert known.sigma2 == pytest.approx(np.array([p for p, _ in cohorts]) @ norms)


def test_a_problem_without_convexity_is_refused():
    with pytest.raises(t.UserError, match="mu > 0"):
        constants_of(replace(logistic(), mu=0.0), t.Full())


def test_the_sampling_floor_is_the_error_of_cohorts_solved_exactly():
    """With one matrix for all clients the minimisers of cohorts are known, and every pair of NICE cohorts can be visited."""
    matrix, vectors = Simulated(quadratic()).a[0], Simulated(quadratic()).b[:5]
    problem = t.Quadratic.of(np.tile(matrix, (5, 1, 1)), vectors)
    optimum = np.linalg.solve(matrix, vectors.mean(0))
    solved = [np.linalg.solve(matrix, vectors[list(pair)].mean(0)) for pair in itertools.combinations(range(5), 2)]
    pairs = [(one + other) / 2 for one, other in itertools.product(solved, solved)]
    expected = [np.mean([np.sum((x - optimum) ** 2) for x in points]) for points in (solved, pairs)]
    np.testing.assert_allclose(sampling_floor(problem, t.Nice(2), (1, 2)), expected, rtol=1e-10)


@pytest.mark.tiers(quick=[], longer=["sampler1"])
@pytest.mark.parametrize("sampler", [t.ShuffledNice(3), t.ShuffledStratified(strata=STRATA)])
def test_the_floor_of_shuffled_cohorts_is_their_mean_over_many_seeds(sampler):
    """Against the sampler's own draws, many keys at once: 1 to 9 cohorts, more than an epoch."""
    problem, seeds, many = quadratic(), 2000, 9
    at, bound = minimum(), bind(sampler, problem)
    steps = np.linalg.solve(at.hessian, at.gradients.T).T

    def means(seed):
        def draw(carry, key):
            state, total = carry
            cohort = bound.draw(state, key, problem.population)
            total = total + cohort.weight @ jnp.asarray(steps)[cohort.ids]
            return (bound.advance(state, key), total), total

        keys = jax.random.split(jax.random.key(seed), many)
        totals = jax.lax.scan(draw, (bound.start(problem.population), jnp.zeros(3)), keys)[1]
        return jnp.sum((totals / jnp.arange(1.0, many + 1)[:, None]) ** 2, axis=1)

    errors = np.asarray(jax.jit(jax.vmap(means))(jnp.arange(seeds)))
    floors = np.array(sampling_floor(problem, bound, range(1, many + 1), at))
    assert np.all(np.abs(errors.mean(0) - floors) <= 4 * errors.std(0) / np.sqrt(seeds) + 1e-12)


def test_no_floor_without_a_hessian():
    problem = quadratic()
    assert sampling_floor(problem, t.Nice(2), (1,), minimum()._replace(hessian=None)) is None
