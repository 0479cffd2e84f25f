"""FedAc: against a plain program, and the rates of its theorems where all clients are alike."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.algorithms.test_scaffold import STEPS, quadratic
from tests.helpers.gradients import client_gradient
from tests.helpers.similar import gap, optimum, servers

ROUNDS, LR, MU = 50, 0.05, 1.0


def coupled(variant, lr, mu, interval):
    gamma = max(np.sqrt(lr / (mu * interval)), lr)
    if variant == "I":
        return 1 / (gamma * mu), 1 / (gamma * mu) + 1, gamma
    alpha = 3 / (2 * gamma * mu) - 0.5
    return alpha, (2 * alpha**2 - 1) / (alpha - 1), gamma


@pytest.mark.tiers(quick=[], longer=["II"])
@pytest.mark.parametrize(("variant", "sampler"), [("I", t.Nice(3)), ("II", t.Independent(size=3.0))], ids=["I", "II"])
def test_a_run_is_its_numpy_program(variant, sampler):
    problem, interval, (w, v) = quadratic(), 4.0, np.zeros((2, 3))
    algorithm = t.FedAc(sampler, LR, MU, STEPS, variant=variant, interval=interval)
    trace = t.run(algorithm, problem, rounds=ROUNDS, seed=1)
    alpha, beta, gamma = coupled(variant, LR, MU, interval)
    for cohort in cohorts(sampler, problem, 1, ROUNDS):
        total, mean = sum(share for _, share, _ in cohort), np.zeros((2, 3))
        for i, share, _ in cohort:
            own, aggregate = w, v
            for _ in range(STEPS[i]):
                middle = own / beta + (1 - 1 / beta) * aggregate
                g = client_gradient(problem, i, middle)
                aggregate = middle - LR * g
                own = (1 - 1 / alpha) * own + middle / alpha - gamma * g
            mean = mean + share / total * np.array([own, aggregate])
        w, v = mean if cohort else (w, v)
    np.testing.assert_allclose(trace.x, v, rtol=0, atol=1e-10)


def check_fedac(variant, interval, problem) -> np.ndarray:
    """Require the potential to fall by its factor in each of four local steps of a round; return it. All clients are alike."""
    matrix, best, steps = problem.rows[0][0], optimum(problem), 4
    mu, lr = float(problem.constants().convexity[0]), float(1 / problem.constants().smoothness[0])
    algorithm = t.FedAc(t.Nice(3), lr, mu, steps, variant=variant, interval=interval)
    share, slower = {"I": (1 / 2, 1), "II": (1 / 6, 3)}[variant]
    factor = (1 - coupled(variant, lr, mu, interval)[2] * mu / slower) ** steps
    psi = np.array(
        [
            (state.aggregate - best) @ matrix @ (state.aggregate - best) / 2 + share * mu * np.sum((state.w - best) ** 2)
            for state in servers(algorithm, problem, 60)
        ]
    )
    assert np.all(psi[1:] <= factor * psi[:-1] * (1 + 1e-9) + 1e-18 * max(1.0, psi[0])) and psi[-1] < psi[0] / 2
    return psi


@pytest.mark.tiers(quick=[], longer=["I-1"])
@pytest.mark.parametrize("interval", [1.0, 4.0], ids=["1", "4"])
@pytest.mark.parametrize("variant", ["I", "II"])
def test_clients_that_are_alike_are_accelerated(variant, interval):
    """kappa = 1000."""
    one = t.Quadratic.random(1, 5, 1.0, 1000.0, seed=3)
    problem = t.Quadratic.of(*(np.repeat(part, 6, axis=0) for part in one.rows))
    psi = check_fedac(variant, interval, problem)
    if interval == 1:
        assert psi[-1] < 0.01 * gap(problem, t.run(t.FedAvg(t.Nice(3), 1e-3, 4), problem, rounds=60).x)
