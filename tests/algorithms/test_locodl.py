"""LoCoDL against a plain program of its paper, and against the rate of its theorem."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_compressed import EvenPlaces, even_places
from tests.helpers.examples import network, small
from tests.helpers.gradients import client_gradient
from tests.helpers.theorems import LocalTheorem
from turnout.theory.compression import locodl_steps

LR, P, SPLIT, SEED = 0.02, 0.4, 0.3, 3


def program(problem, steps) -> np.ndarray:
    n, shares = problem.clients, np.asarray(problem.population.shares)
    chi = 1 / (1 + shares.max())
    c = P * chi / (LR * (1 + 2))
    x, u, y, v = np.zeros((n, 3)), np.zeros((n, 3)), np.zeros(3), np.zeros(3)
    for count in steps:
        for _ in range(int(count)):
            for i in range(n):
                x[i] -= LR * (client_gradient(problem, i, x[i]) - SPLIT * x[i] - u[i])
            y = y - LR * (SPLIT * y - v)
        sent = np.array([even_places(each - y) for each in x])
        d = shares @ sent / 2
        u, v = u + c * (d - sent), v + c * d
        x = (1 - chi) * x + chi * (y + d)
        y = y + chi * d
        np.testing.assert_allclose(shares @ u + v, 0, atol=1e-12)
    return y


@pytest.mark.longer
def test_a_run_is_its_numpy_program():
    algorithm = t.LoCoDl(t.Full(), EvenPlaces(), lr=LR, probability=P, split=SPLIT)
    trace = t.run(algorithm, small(), rounds=6, seed=SEED)
    steps = np.diff(trace.frame["queries_slowest"])
    np.testing.assert_allclose(trace.x, program(small(), steps), atol=1e-12)


@pytest.mark.slow
def test_lost_replies_leave_the_fixed_point_where_it_is():
    problem = t.Quadratic.random(10, 6, seed=5)
    algorithm = t.LoCoDl(t.Full(), t.codecs.RandK(count=4))
    trace = t.run(algorithm, problem, rounds=1500, seed=SEED, faults=t.Faults(0.2, "skip"), metrics=("distance",))
    assert trace.columns["distance"][-1] < 1e-12 * trace.columns["distance"][0]


def locodl_theorem(codec, problem) -> LocalTheorem:
    """Of n |y - x*|^2 / lr, which is a part of Psi."""
    n = problem.clients
    matrices, vectors = (np.asarray(part) for part in problem.rows)
    x = np.linalg.solve(matrices.mean(0), vectors.mean(0))
    lr, p, split = locodl_steps(problem, codec)
    omega = codec.variance(6)
    chi = 1 / (1 + omega / n)
    mu, largest = np.linalg.eigvalsh(matrices).min() - split, np.linalg.eigvalsh(matrices).max() - split
    rate = max((1 - lr * mu) ** 2, (1 - lr * largest) ** 2, 1 - p**2 * chi / (1 + 2 * omega))
    assert mu == pytest.approx(split)
    duals = np.sum((matrices @ x - vectors - split * x) ** 2) + n * split**2 * x @ x
    first = 2 * x @ x + lr**2 * (1 + 2 * omega) / (p**2 * chi) * duals / n
    return LocalTheorem(problem, t.LoCoDl(t.Full(), codec), first, rate)


@pytest.mark.tiers(quick=[], longer=["Identity"])
@pytest.mark.parametrize(
    "codec", [t.codecs.RandK(count=2), t.codecs.Qsgd(bits=3), t.codecs.Identity()], ids=lambda c: type(c).__name__
)
def test_the_error_falls_at_the_theorems_rate(codec):
    locodl_theorem(codec, t.Quadratic.random(10, 6, seed=5)).check(rounds=60, seeds=16, fall=10, allowed=0)


def test_the_steps_make_the_terms_of_the_rate_equal():
    problem, codec = t.Quadratic.random(100, 6, seed=5), t.codecs.RandK(fraction=2 / 3)
    constants = problem.constants()
    mu, largest = np.min(constants.convexity) / 2, np.max(constants.smoothness) - np.min(constants.convexity) / 2
    lr, p, split = locodl_steps(problem, codec)
    assert lr == pytest.approx(2 / (mu + largest)) and 0 < p < 1 and split == pytest.approx(mu)
    assert (1 - lr * mu) ** 2 == pytest.approx(1 - p**2 / (1 + 0.5 / 100) / 2)
    assert locodl_steps(network(), codec, 0.1, 0.2, 0.3) == (0.1, 0.2, 0.3)


MISTAKES = {
    "biased": (lambda: t.LoCoDl(t.Full(), t.codecs.TopK(count=1)), small, "TopK is biased"),
    "convexity": (lambda: t.LoCoDl(t.Full(), t.codecs.Identity()), network, "give lr, probability and split"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_sentence(name):
    make, problem, sentence = MISTAKES[name]
    with pytest.raises(t.UserError, match=sentence):
        t.run(make(), problem(), rounds=1)
