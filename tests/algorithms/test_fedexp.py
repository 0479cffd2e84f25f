"""FedExP: against a plain program, and in every round the decrease that its theory promises."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.helpers.similar import SHARES, servers, similar, slope, weights

ROUNDS, STEPS, LR = 50, 5, 0.015


def changes(problem, x, lr=LR) -> np.ndarray:
    """d_i [n, d]."""
    points = np.tile(x, (problem.clients, 1))
    for _ in range(STEPS):
        points = points - lr * np.array([slope(problem, i, y) for i, y in enumerate(points)])
    return points - x


def step(moves, shares, epsilon) -> tuple[np.ndarray, float]:
    """mean d_i, and eta by its definition."""
    mean = shares @ moves
    return mean, max(1.0, shares @ np.sum(moves**2, axis=1) / (2 * (mean @ mean + epsilon)))


@pytest.mark.tiers(quick=[], longer=["independent"])
@pytest.mark.parametrize(("sampler", "equal"), [(t.Nice(3), False), (t.Independent(size=1.5), True)], ids=["nice", "independent"])
def test_a_run_is_its_numpy_program(sampler, equal):
    problem, x, epsilon, grown = similar(equal, share=0.8), np.zeros(4), 1e-4, 0
    trace = t.run(t.FedExp(sampler, LR, STEPS, epsilon=epsilon), problem, rounds=ROUNDS, seed=1)
    for cohort in cohorts(sampler, problem, 1, ROUNDS):
        if cohort:
            shares = np.array([share for _, share, _ in cohort])
            mean, eta = step(changes(problem, x)[[i for i, *_ in cohort]], shares / shares.sum(), epsilon)
            x, grown = x + eta * mean, grown + (eta > 1)
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)
    assert equal or grown > 0


def interpolated() -> tuple[t.Quadratic, np.ndarray]:
    """Eight clients of unequal weights, each with one row of 12 unknowns, and the minimiser that all share."""
    rows, common = np.random.default_rng(0).normal(size=(8, 12)), np.linspace(-1.0, 1.0, 12)
    matrices = np.einsum("ni,nj->nij", rows, rows)
    return t.Quadratic.of(matrices, matrices @ common, weights=SHARES), common


def check_fedexp(problem, common, lr, rounds) -> tuple[list, list]:
    """Require every round to fall as promised, with a common minimiser and everyone; return the states and the eta."""
    states, shares, etas = servers(t.FedExp(t.Full(), lr, STEPS, epsilon=0.0), problem, rounds), weights(problem), []
    distances = np.sum((np.array(states) - common) ** 2, axis=1)
    for x, last, new in zip(states[:-1], distances[:-1], distances[1:], strict=True):
        moves = changes(problem, x, lr)
        mean, eta = step(moves, shares, 0.0)
        promised = eta * (shares @ np.sum(moves**2, axis=1) - eta * mean @ mean)
        assert -1e-12 * last <= promised <= last - new + 1e-12 * distances[0]
        etas.append(eta)
    assert distances[-1] < distances[0] / 2
    return states, etas


@pytest.mark.longer
def test_every_round_falls_by_what_theory_promises():
    """eta is above 1, so that FedAvg is slower."""
    problem, common = interpolated()
    states, etas = check_fedexp(problem, common, LR, 12)
    assert min(etas) > 1
    average = t.run(t.FedAvg(t.Full(), LR, STEPS), problem, rounds=12).x
    losses = [SHARES @ np.einsum("i,nij,j->n", x - common, problem.rows[0], x - common) / 2 for x in (states[-1], average)]
    assert losses[0] < losses[1] / 2


@pytest.mark.slow
def test_clients_that_agree_are_averaged():
    """mean |d_i|^2 = |mean d_i|^2, so that eta = 1."""
    one = t.Quadratic.random(1, 4, seed=3)
    problem = t.Quadratic.of(np.repeat(one.rows[0], 6, axis=0), np.repeat(one.rows[1], 6, axis=0))
    runs = [t.run(make(t.Nice(3), LR, STEPS), problem, rounds=5).x for make in (t.FedExp, t.FedAvg)]
    np.testing.assert_allclose(*runs, rtol=1e-12)
