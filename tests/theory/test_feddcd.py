"""The theorems of FedDCD against literal NumPy runs of its two algorithms on random quadratics."""

import itertools

import numpy as np
import pytest

import turnout as t
from tests.helpers.enumeration import enumerate_subsets
from turnout.client_solvers import NewtonCg
from turnout.runs.setup import bind, scope
from turnout.theory import feddcd as dual
from turnout.theory.applicability import bound_of
from turnout.theory.constants import constants_of
from turnout.theory.feddcd_complexity import accfeddcd, fedavg, feddcd, mbsgd, scaffold
from turnout.theory.feddcd_spectral_gap import expected_projection, spectral_gap

N, D, SEEDS, ROUNDS = 8, 4, 40, 60


class Quadratics:
    """f_i(w) = w^T A_i w / 2 - <b_i, w>, with eigenvalues of A_i from alpha_i to 4 alpha_i."""

    def __init__(self, convexity):
        problem = t.Quadratic.random(N, D, 1.0, 4.0, spread=2.0, seed=1)
        self.convexity = np.asarray(convexity)
        self.matrices = problem.rows[0] * self.convexity[:, None, None]
        self.vectors = problem.rows[1] * self.convexity[:, None]
        self.inverses = np.linalg.inv(self.matrices)
        self.best = np.linalg.solve(self.matrices.sum(0), self.vectors.sum(0))
        self.duals = self.matrices @ self.best - self.vectors

    def model(self, y, ids=slice(None)):
        """argmin f_i(w) - <w, y_i>."""
        return np.einsum("nij,nj->ni", self.inverses[ids], y + self.vectors[ids])

    def gap(self, y):
        """G(y) - G(y*), G = sum_i f_i^*."""
        value = lambda y: np.einsum("ni,ni->", self.model(y), y + self.vectors) / 2  # noqa: E731
        return value(y) - value(self.duals)

    def distance(self, y):
        """(1/n) sum_i |w_i - w*|^2."""
        return np.mean(np.sum((self.model(y) - self.best) ** 2, axis=1))


@pytest.fixture(scope="module")
def equal():
    return Quadratics(np.ones(N))


def uniform(size):
    return lambda generator: generator.choice(N, size, replace=False)


def correction(problem, y, cohort, models=None):
    """alpha_i (w_i - weighted mean) of a cohort."""
    alpha = problem.convexity[cohort][:, None]
    models = problem.model(y[cohort], cohort) if models is None else models
    return alpha * (models - np.sum(alpha * models, axis=0) / alpha.sum())


def algorithm_1(problem, draw, seed, lr=1.0, delta=None):
    """Yield y of all clients after each round; with `delta` the models miss by as much as Definition 5.1 allows."""
    generator, y, last = np.random.default_rng(seed), np.zeros((N, D)), np.zeros((N, D))
    yield y
    for _ in range(ROUNDS):
        cohort = draw(generator)
        models = problem.model(y[cohort], cohort)
        if delta is not None:
            away = generator.normal(size=models.shape)
            away *= np.linalg.norm(last[cohort] - models, axis=1, keepdims=True) / np.linalg.norm(away, axis=1, keepdims=True)
            models = models + np.sqrt(delta) * away
            last[cohort] = models
        y = y.copy()
        y[cohort] -= lr * correction(problem, y, cohort, models)
        yield y


def algorithm_2(problem, size, seed, beta):
    """Yield y, and v from which the next round solves, after each round of two cohorts; all alpha_i are 1."""
    generator, y, z = np.random.default_rng(seed), np.zeros((N, D)), np.zeros((N, D))
    r, s = (size - 1) / (N - 1), beta**-0.5
    a = s / (1 / r + s)
    b = a * r**2 / beta
    yield y, y
    for _ in range(ROUNDS):
        v = (1 - a) * y + a * z
        u = (a**2 * z + b * v) / (a**2 + b)
        y, z = v.copy(), u
        first, second = uniform(size)(generator), uniform(size)(generator)
        y[first] -= correction(problem, v, first)
        z[second] -= a * r / (a**2 + b) * correction(problem, v, second)
        yield y, (1 - a) * y + a * z


def means(problem, play):
    """The means over seeds of the dual gap and of the distance after 0, 1, ..., ROUNDS rounds."""
    runs = [[(problem.gap(y), problem.distance(y)) for y in play(seed)] for seed in range(SEEDS)]
    return np.mean(runs, axis=0).T


def holds(problem, play, rate, constant=1.0):
    """Both bounds of a theorem hold at every round, and the runs do converge."""
    gaps, distances = means(problem, play)
    rounds, dual2 = np.arange(ROUNDS + 1), np.sum(problem.duals**2)
    assert np.all(gaps <= rate**rounds * gaps[0] * (1 + 1e-9))
    assert np.all(distances <= dual.distance(rounds, rate, N, 1.0, dual2, constant) * (1 + 1e-9))
    assert gaps[-1] < 0.8 * gaps[0]


@pytest.mark.parametrize("size", [2, 4, N])
def test_feddcd_is_within_theorem_4_1(equal, size):
    rate = dual.feddcd_rate(dual.nice_spectral_gap(size, N), 1.0, 4.0)
    holds(equal, lambda seed: algorithm_1(equal, uniform(size), seed), rate)


def test_clients_that_are_the_same_are_done_at_once():
    """Section 4.1: at y = 0 every model is the common minimiser, and no round moves y."""
    problem = Quadratics(np.ones(N))
    problem.inverses[:], problem.vectors[:] = problem.inverses[0], problem.vectors[0]
    *_, y = algorithm_1(problem, uniform(3), 0)
    np.testing.assert_allclose(y, 0, atol=1e-12)
    np.testing.assert_allclose(problem.model(y), np.tile(problem.inverses[0] @ problem.vectors[0], (N, 1)), rtol=1e-12)


@pytest.mark.longer
def test_the_rate_of_theorem_4_1_holds_for_other_steps(equal):
    for lr in (0.5, 0.99, 1.5):
        rate = dual.feddcd_rate(dual.nice_spectral_gap(3, N), 1.0, 4.0, lr)
        holds(equal, lambda seed, lr=lr: algorithm_1(equal, uniform(3), seed, lr), rate)


@pytest.mark.parametrize("size", [3, N])
def test_inexact_feddcd_is_within_theorem_5_2(equal, size):
    known = dual.nice_spectral_gap(size, N), 1.0, 4.0
    delta = dual.inexactness(*known)
    assert dual.inexact_rate(*known) == pytest.approx(4 * delta)
    play = lambda seed: algorithm_1(equal, uniform(size), seed, dual.INEXACT_LR, delta)  # noqa: E731
    holds(equal, play, dual.inexact_rate(*known), 20 / 3)


@pytest.mark.longer
@pytest.mark.parametrize("size", [2, 4, N])
def test_accfeddcd_is_within_theorem_6_1(equal, size):
    rate = dual.accfeddcd_rate(dual.nice_spectral_gap(size, N), 1.0, 4.0)
    holds(equal, lambda seed: (y for y, _ in algorithm_2(equal, size, seed, 4.0)), rate)
    _, handed_out = means(equal, lambda seed: (v for _, v in algorithm_2(equal, size, seed, 4.0)))
    constant = dual.accfeddcd_constant(dual.nice_spectral_gap(size, N), 1.0, 4.0)
    bound = dual.distance(np.arange(ROUNDS + 1), rate, N, 1.0, np.sum(equal.duals**2), constant)
    assert np.all(handed_out <= bound * (1 + 1e-9))


def literal_projection(sampler, convexity):
    """E[P_S] summed over all cohorts."""
    total = np.zeros((N, N))
    for chance, cohort, _ in enumerate_subsets(sampler, t.Population(count=N)):
        inside = np.isin(np.arange(N), cohort).astype(float)
        along = inside * np.sqrt(convexity)
        total += chance * (np.diag(inside) - np.outer(along, along) / (along @ along))
    return total


SETS, CHANCES = [[0, 1, 2, 3], [3, 4, 5], [5, 6, 7, 0]], [0.5, 0.2, 0.3]
BLOCKS = [0, 0, 0, 1, 1, 2, 2, 2]
CLIENT_CONVEXITY = np.array([0.5, 1.0, 2.0, 1.0, 0.7, 3.0, 1.0, 0.5])
EXACT = {
    "full": t.Full(),
    "nice": t.Nice(3),
    "stratified": t.Stratified(strata=BLOCKS),
    "two-stage": t.Stratified(strata=BLOCKS, size=2),
    "block": t.Block(blocks=BLOCKS, probability=[0.2, 0.3, 0.5]),
    "subsets": t.Subsets(SETS, CHANCES),
}


@pytest.mark.parametrize("sampler", EXACT.values(), ids=EXACT)
def test_expected_projections_are_those_of_the_listed_cohorts(sampler):
    population = t.Population(count=N)
    bound = sampler.bind(population)
    np.testing.assert_allclose(
        expected_projection(bound, population, np.ones(N)), literal_projection(bound, np.ones(N)), atol=1e-12
    )


def test_expected_projections_know_the_convexity_of_each_client():
    population, sampler = t.Population(count=N), EXACT["subsets"].bind(t.Population(count=N))
    found = expected_projection(sampler, population, CLIENT_CONVEXITY)
    np.testing.assert_allclose(found, literal_projection(sampler, CLIENT_CONVEXITY), atol=1e-12)
    drawn = t.Nice(3).bind(population)
    found = expected_projection(drawn, population, CLIENT_CONVEXITY)
    # Each entry is a mean of 20,000 draws between -1 and 1.
    np.testing.assert_allclose(found, literal_projection(drawn, CLIENT_CONVEXITY), atol=5 / np.sqrt(20_000))


@pytest.mark.parametrize("clients, size", [(2, 2), (5, 2), (8, 3), (9, 9), (30, 1)])
def test_uniform_cohorts_pair_by_tau_minus_1_over_n_minus_1(clients, size):
    population = t.Population(count=clients)
    found = spectral_gap(expected_projection(t.Nice(size).bind(population), population, np.ones(clients)), np.ones(clients))
    assert found == pytest.approx((size - 1) / (clients - 1), abs=1e-12)


def test_cohorts_that_do_not_connect_the_clients_pair_none():
    population = t.Population(count=N)
    blocks = expected_projection(EXACT["block"].bind(population), population, np.ones(N))
    assert spectral_gap(blocks, np.ones(N)) == pytest.approx(0, abs=1e-12)


def test_the_rate_holds_for_other_designs_and_clients_of_their_own_convexity():
    """Three overlapping cohorts of unequal chances, and unequal alpha_i: the dual gap shrinks by 1 - r min alpha_i / beta_i."""
    problem, population = Quadratics(CLIENT_CONVEXITY), t.Population(count=N)
    draw = lambda generator: np.array(SETS[generator.choice(3, p=CHANCES)])  # noqa: E731
    r = spectral_gap(expected_projection(EXACT["subsets"].bind(population), population, CLIENT_CONVEXITY), CLIENT_CONVEXITY)
    gaps, _ = means(problem, lambda seed: algorithm_1(problem, draw, seed))
    assert 0.05 < r < 1
    assert np.all(gaps <= dual.feddcd_rate(r, 1.0, 4.0) ** np.arange(ROUNDS + 1) * gaps[0] * (1 + 1e-9))


def test_rounds_are_the_first_at_which_the_bound_is_met():
    for epsilon, rate, first in itertools.product((1e-3, 0.3, 2.0), (0.2, 0.99), (0.1, 7.0)):
        met = dual.rounds(epsilon, rate, first)
        assert rate**met * first <= epsilon * (1 + 1e-12)
        assert met == 0 or rate ** (met - 1) * first > epsilon


def test_table_1_grows_as_it_says():
    """Only variance and heterogeneity cost rounds in 1 / epsilon; the dual rates are those of the theorems."""
    known = dict(size=10, clients=100, convexity=1e-2, smoothness=1.0)
    exact = dict(known, noise2=0.0)
    assert mbsgd(1e-3, **dict(exact, size=100), heterogeneity=5.0) == pytest.approx(100 * np.log(1e3))
    assert scaffold(1e-3, **exact, steps=5) == pytest.approx((100 + 10) * np.log(1e3))
    assert fedavg(1e-4, 10, 1e-2, 1.0, 0.0, 0.0, 5) == pytest.approx(100 * np.log(1e4))
    drift = [fedavg(e, 10, 1e-2, 1.0, 3.0, 0.0, 5) - 100 * np.log(1 / e) for e in (1e-4, 1e-6)]
    assert drift[1] == pytest.approx(10 * drift[0])
    for method, rate in ((feddcd, dual.feddcd_rate), (accfeddcd, dual.accfeddcd_rate)):
        rounds = method(1e-6, **known, heterogeneity=1.0) - method(1e-3, **known, heterogeneity=1.0)
        factor = rate(dual.nice_spectral_gap(10, 100), 1e-2, 1.0)
        assert rounds == pytest.approx(np.log(1e-3) / np.log(factor), rel=0.02)


def test_the_lower_bound_is_below_accelerated_feddcd():
    """Were the minimum of equation (14) right, no method could be as fast as Theorem 6.1 says that AccFedDCD is."""
    size, clients, convexity, smoothness = 10, 100, 1e-6, 1.0
    promised = dual.accfeddcd_rate(dual.nice_spectral_gap(size, clients), convexity, smoothness)
    assert dual.lower_rate(size, clients, convexity, smoothness) ** 2 <= promised
    assert 1 - 8 * np.sqrt(2) * convexity / smoothness > promised


FOUR = t.Population(count=4)


@pytest.mark.longer
def test_what_no_theorem_is_about_is_one_sentence():
    for call, message in (
        (lambda: dual.nice_spectral_gap(1, 10), "cohorts of 2 to 10 clients, but size is 1"),
        (lambda: dual.nice_spectral_gap(11, 10), "cohorts of 2 to 10 clients"),
        (lambda: dual.feddcd_rate(0.5, 0.0, 1.0), "0 < convexity <= smoothness"),
        (lambda: dual.accfeddcd_rate(0.5, 2.0, 1.0), "0 < convexity <= smoothness"),
        (lambda: dual.inexact_rate(0.0, 0.5, 1.0), "cohorts must connect the clients"),
        (lambda: dual.feddcd_rate(0.5, 0.5, 1.0, 2.0), "0 < lr < 2, but lr is 2"),
        (lambda: dual.rounds(0.0, 0.5, 1.0), "greater than 0, but epsilon is 0"),
        (lambda: expected_projection(t.WithReplacement([0.25] * 4, size=2).bind(FOUR), FOUR, np.ones(4)), "drawn at most once"),
    ):
        with pytest.raises(t.UserError, match=message):
            call()


EXACTLY = NewtonCg(tolerance=1e-11, relative=1e-8)
PLAYS = {"feddcd": t.FedDcd(t.Subsets(SETS, CHANCES), EXACTLY, lr=0.9), "accfeddcd": t.AccFedDcd(t.Nice(3), EXACTLY)}


def bound_on(algorithm, problem, constants):
    with scope("double"):
        return bound_of(bind(algorithm, problem, 40), problem, constants)


def made(scale):
    """f_i with eigenvalues from scale_i to 4 scale_i, and the constants of Theorem 1 for uniform cohorts."""
    problem = t.Quadratic.random(N, D, 1.0, 4.0, spread=2.0, seed=1)
    problem = t.Quadratic.of(problem.rows[0] * scale[:, None, None], problem.rows[1] * scale[:, None])
    return problem, constants_of(problem, t.Nice(3))


@pytest.mark.tiers(quick=[], longer=["feddcd-scale0"])
@pytest.mark.parametrize("method, scale", [("feddcd", CLIENT_CONVEXITY), ("accfeddcd", np.ones(N))])
def test_what_a_run_hands_out_is_within_its_bound(method, scale):
    """FedDCD with overlapping cohorts of unequal chances and clients of their own convexity."""
    check_handed_out(PLAYS[method], *made(scale), rounds=40, seeds=20, fall=10)


def check_handed_out(algorithm, problem, constants, rounds, seeds, fall, every=1):
    """Require the mean over the seeds to be within the bound, which it is by falling; return its largest share."""
    swept = t.sweep(algorithm, problem, {}, rounds=rounds, every=every, seeds=range(seeds), metrics=("distance",))
    measured = np.mean([trace.columns["distance"] for trace in swept.traces], axis=0)
    bound = bound_on(algorithm, problem, constants).at(swept.traces[0].columns["round"])
    assert np.all(measured <= bound * (1 + 1e-9))
    assert bound[-1] < bound[0] and measured[-1] < measured[0] / fall
    return np.max(measured / bound)


@pytest.mark.longer
def test_bounds_need_what_the_theorems_do():
    problem, constants = made(np.ones(N))
    inexact = t.FedDcd(t.Nice(3), EXACTLY, delta=0.2, lr=dual.INEXACT_LR)
    assert bound_on(inexact, problem, constants).theorem == "5.2 of FedDCD"
    for algorithm, why in (
        (t.FedDcd(t.Nice(3), EXACTLY, convexity=2.0), "convexity of at most mu_i"),
        (t.FedDcd(t.Independent(size=3), EXACTLY), "never empty"),
        (t.FedDcd(t.Nice(3), EXACTLY, delta=0.2), "lr = 0.25 and delta of at most"),
        (t.FedDcd(t.Block(blocks=BLOCKS), EXACTLY), "must connect the clients"),
        (t.AccFedDcd(t.Nice(3), EXACTLY, lr=0.9), "fraction = 0.285714"),
    ):
        with pytest.raises(t.UserError, match=why):
            bound_on(algorithm, problem, constants)
