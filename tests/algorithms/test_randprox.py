"""RandProx (Condat and Richtarik, 2023, Algorithm 2): its form on clients, and Scaffnew and Point-SAGA as others of its forms.

RandProx minimises f(x) + h(K x) by v = x - gamma (grad f(x) + K' u), d = R(prox_{tau h*}(u + tau K v) - u),
u <- u + d / (1 + omega), x <- v - gamma K' d, with an unbiased random R of variance omega.
"""

from itertools import combinations, product

import jax
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_compressed import EvenPlaces, even_places
from tests.algorithms.test_references import cohorts
from tests.helpers.similar import CLIENTS, SHARES, Exact, full_slope, optimum, similar, slope, tilted, weights
from tests.helpers.theorems import Theorem
from turnout.core.seeds import Seeds
from turnout.runs.session import Session
from turnout.runs.setup import bind
from turnout.theory.designs import inclusion

N, DIMENSION, ROUNDS = 5, 3, 50
EXACT = t.client_solvers.NewtonCg(tolerance=1e-13, relative=1e-13)


def problem() -> t.Quadratic:
    return t.Quadratic.random(N, DIMENSION, seed=4)


def randprox(x, u, gradient, k, prox, random, omega, gamma):
    """One iteration; `k` is K as a matrix on the numbers in a row."""
    v = x - gamma * (gradient(x) + k.T @ u)
    change = random(prox(u, k @ v) - u)
    return v - gamma * k.T @ change, u + change / (1 + omega)


@pytest.mark.longer
def test_scaffnew_is_randprox_whose_prox_is_the_mean_that_is_taken_now_and_then():
    """f is the sum of f_i(x_i), h is 0 where all x_i are equal, K = I, R is a coin by p and tau = p / gamma; u_i = -h_i."""
    lr, p, rounds = 0.05, 0.3, 20
    matrices, vectors = problem().rows
    slopes = lambda x: (np.einsum("nij,nj->ni", matrices, x.reshape(N, DIMENSION)) - vectors).reshape(-1)  # noqa: E731
    centre = np.kron(np.eye(N) - np.ones((N, N)) / N, np.eye(DIMENSION))
    prox = lambda u, v: centre @ (u + p / lr * v)  # noqa: E731
    x = u = np.zeros(N * DIMENSION)
    for number in range(1, rounds + 1):
        steps = int(jax.random.geometric(jax.random.fold_in(Seeds.of(1).exchange(number, 0), N), p))
        for k in range(1, steps + 1):
            coin = lambda change, k=k, steps=steps: change / p * (k == steps)  # noqa: E731
            x, u = randprox(x, u, slopes, np.eye(x.size), prox, coin, 1 / p - 1, lr)
    trace = t.run(t.Scaffnew(t.Full(), lr, p), problem(), rounds=rounds, seed=1)
    np.testing.assert_allclose(np.tile(trace.x, N), x, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_point_saga_is_randprox_that_updates_one_dual_vector():
    """f = 0, h is the sum of f_i(x_i), K x = (x, ..., x), R is n times a block, n gamma and 1 / tau are Point-SAGA's gamma."""
    gamma, rounds = 0.1, 20
    matrices, vectors = problem().rows
    k = np.tile(np.eye(DIMENSION), (N, 1))

    def prox(u, v):
        """u + (v - w) / gamma, w minimising f_i(w) - u.w + |w - v|^2 / (2 gamma)."""
        u, v = u.reshape(N, DIMENSION), v.reshape(N, DIMENSION)
        w = np.linalg.solve(np.eye(DIMENSION) / gamma + matrices, (vectors + u + v / gamma)[..., None])[..., 0]
        return (u + (v - w) / gamma).reshape(-1)

    x, u = np.zeros(DIMENSION), np.zeros(N * DIMENSION)
    for ((i, *_),) in cohorts(t.Nice(1), problem(), 1, rounds):
        block = np.repeat(np.arange(N) == i, DIMENSION)
        x, u = randprox(x, u, np.zeros_like, k, prox, lambda change, block=block: N * block * change, N - 1, gamma / N)
    trace = t.run(t.PointSaga(t.Nice(1), EXACT, gamma), problem(), rounds=rounds, seed=1)
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


@pytest.mark.longer
def test_on_clients_it_is_the_papers_algorithm():
    """f = (mu / 2) |x|^2, h is the sum of f_i - f, K x = (x, ..., x), R takes (n / m) C of the blocks of a cohort."""
    gamma, beta, mu, size = 0.1, 0.2, 0.5, 2
    matrices, vectors = problem().rows
    k, omega = np.tile(np.eye(DIMENSION), (N, 1)), 2 * N / size - 1

    def prox(u, v):
        h, v = N * u.reshape(N, DIMENSION), v.reshape(N, DIMENSION)
        y = np.linalg.solve((1 / beta - mu) * np.eye(DIMENSION) + matrices, (vectors + h + v / beta)[..., None])[..., 0]
        return (h + (v - y) / beta).reshape(-1) / N

    x, u = np.zeros(DIMENSION), np.zeros(N * DIMENSION)
    for cohort in cohorts(t.Nice(size), problem(), 1, ROUNDS):
        drawn = [i for i, *_ in cohort]

        def random(change, drawn=drawn):
            own = [N / size * even_places(block) * (i in drawn) for i, block in enumerate(change.reshape(N, DIMENSION))]
            return np.concatenate(own)

        x, u = randprox(x, u, lambda x: mu * x, k, prox, random, omega, gamma)
    trace = t.run(t.RandProx(t.Nice(size), EXACT, gamma, EvenPlaces(), mu=mu, beta=beta), problem(), rounds=ROUNDS, seed=1)
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


def one_round(data, x, h, gamma, beta, mu, omega, drawn):
    """x and the h_i after a round; `drawn` has the clients, their lambda_i / p_i and their C."""
    h = h.copy()
    x = z = (1 - gamma * mu) * x - gamma * weights(data) @ h
    for i, weight, code in drawn:
        step = code((z - tilted(data, i, h[i] + z / beta, 1 / beta - mu, 0.0)) / beta)
        x, h[i] = x - gamma * weight * step, h[i] + step / (1 + omega)
    return x, h


@pytest.mark.tiers(quick=[], longer=["independent"], slow=["full"])
@pytest.mark.parametrize("sampler", [t.Independent(size=3.0), t.Full()], ids=["independent", "full"])
def test_with_unequal_weights_a_run_is_its_numpy_program(sampler):
    gamma, beta, mu, data = 0.02, 0.05, 0.7, similar(False)
    factors = SHARES / inclusion(bind(sampler, data), data.population)
    x, h = np.zeros(4), np.zeros((CLIENTS, 4))
    for cohort in cohorts(sampler, data, 3, ROUNDS):
        if cohort:
            x, h = one_round(data, x, h, gamma, beta, mu, 1.0, [(i, factors[i], even_places) for i, *_ in cohort])
    trace = t.run(t.RandProx(sampler, Exact(), gamma, EvenPlaces(), mu=mu, beta=beta), data, rounds=ROUNDS, seed=3)
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


class Known:
    """gamma, beta and the factor of the docstring for a sampler and a codec with variance omega, and Psi."""

    def __init__(self, data, sampler, omega):
        self.data, self.omega, self.x = data, omega, optimum(data)
        self.mu, self.largest = min(data.constants().convexity), max(data.constants().smoothness)
        self.duals = np.array([slope(data, i, self.x) - self.mu * self.x for i in range(CLIENTS)])
        chance = inclusion(bind(sampler, data), data.population)
        self.weights, self.rate = weights(data) / chance, chance.min() / (1 + omega)
        room = 1 + omega * self.weights.max()
        self.gamma = float(np.sqrt(self.rate / (room * self.mu * self.largest)))
        self.beta = self.gamma * room

    @property
    def factor(self):
        return max((1 - self.gamma * self.mu) ** 2, 1 - self.rate * 2 / (2 + self.beta * (self.largest - self.mu)))

    def psi(self, x, h):
        duals = self.weights @ np.sum((h - self.duals) ** 2, axis=1)
        return np.sum((x - self.x) ** 2) / self.gamma + (1 + self.omega) * (self.beta + 2 / (self.largest - self.mu)) * duals


@pytest.mark.parametrize("enough", [True, False])
def test_a_round_falls_by_the_factor_if_beta_is_large_enough(enough):
    """E Psi of one round from three states, over all cohorts of two and all places where C keeps one number of four."""
    known, random = Known(similar(share=0.9), t.Nice(2), 3.0), np.random.default_rng(0)
    known.beta *= 1.0 if enough else 0.3
    keeps = [lambda v, kept=row: 4 * v * kept for row in np.eye(4)]
    falls = []
    for scale in (0.0, 0.1, 1.0):
        x, h = known.x + scale * random.normal(size=4), known.duals + random.normal(size=(CLIENTS, 4))
        ends = [
            one_round(known.data, x, h, known.gamma, known.beta, known.mu, 3.0, [(i, 1 / 2, one), (j, 1 / 2, other)])
            for i, j in combinations(range(CLIENTS), 2)
            for one, other in product(keeps, repeat=2)
        ]
        falls.append(np.mean([known.psi(*end) for end in ends]) / known.psi(x, h))
    assert (max(falls) <= known.factor) == enough
    assert max(falls) > 0.98 * known.factor


CASES = {"cohorts": (t.Nice(2), t.codecs.RandK(count=2), 1.0), "everyone": (t.Full(), t.codecs.RandK(count=1), 3.0)}
"""Sampler, codec and omega."""


def randprox_theorem(name, data) -> Theorem:
    """|x - x*|^2 <= gamma Psi, gamma as the docstring says."""
    sampler, codec, omega = CASES[name]
    known = Known(data, sampler, omega)
    algorithm = t.RandProx(sampler, Exact(), known.gamma, codec)
    assert bind(algorithm, data).beta == pytest.approx(known.beta)
    first = known.gamma * known.psi(np.zeros(4), np.zeros((CLIENTS, 4)))
    return Theorem(data, algorithm, "distance", first, known.factor)


@pytest.mark.tiers(quick=[], longer=["cohorts"], slow=["everyone"])
@pytest.mark.parametrize("name", CASES)
def test_the_distance_falls_at_the_rate_of_the_docstring(name):
    """The weights are unequal where all take part."""
    randprox_theorem(name, similar(name == "cohorts", share=0.9)).check(rounds=80, seeds=60, every=8, fall=100)


@pytest.mark.longer
def test_without_mu_and_a_codec_it_is_5gcs():
    """Where mu is 0, explicit and implicit steps on (mu / 2) |x|^2 are the same."""
    options = {"rounds": 5, "seed": 2}
    theirs = t.run(t.FiveGcs(t.Nice(2), Exact(), 0.1, mu=0.0), similar(), **options)
    ours = t.run(t.RandProx(t.Nice(2), Exact(), 0.1, t.codecs.Identity(), mu=0.0), similar(), **options)
    np.testing.assert_allclose(ours.x, theirs.x, rtol=0, atol=1e-12)


@pytest.mark.tiers(quick=[], slow=["repeat"])
@pytest.mark.parametrize("missing", ["skip", "repeat"])
def test_rough_solutions_and_lost_replies_change_the_speed_only(missing):
    """v = sum_i lambda_i h_i to rounding in every row, and x = x*, h_i = grad f_i(x*) - mu x* at last."""
    data, mu = similar(False), 0.7
    rough = t.client_solvers.Gradient(lr=1 / 90, steps=2, tolerance=0.0)
    algorithm = t.RandProx(t.Nice(3), rough, 0.015, t.codecs.RandK(count=2), mu=mu)
    session = Session(algorithm, data, seeds=Seeds.of(0), rounds=6000, every=1500, faults=t.Faults(0.2, missing))
    for _ in session.play():
        duals, server = np.asarray(session.progress.clients), session.progress.server
        np.testing.assert_allclose(SHARES @ duals, server.v, atol=1e-10)
    x = np.asarray(server.x)
    np.testing.assert_allclose(full_slope(data, x), 0.0, atol=1e-8)
    np.testing.assert_allclose(duals, data.rows[0] @ x - data.rows[1] - mu * x, atol=1e-6)


MISTAKES = {
    "gamma": (t.RandProx(t.Nice(2), Exact(), 1.0, t.codecs.RandK(count=2), mu=0.7), "mu = 1.42857, but beta is 1.5: make gamma"),
    "beta": (t.RandProx(t.Nice(2), Exact(), 1.0, t.codecs.RandK(count=2), mu=0.7, beta=2.0), "but beta is 2: make it smaller"),
    "biased": (t.RandProx(t.Nice(2), Exact(), 0.1, t.codecs.TopK(count=1)), "TopK is biased"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_sentence(name):
    algorithm, sentence = MISTAKES[name]
    with pytest.raises(t.UserError, match=sentence):
        bind(algorithm, similar())
