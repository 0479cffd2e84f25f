"""FedLin: against a plain program, and in every round the decrease that its theory promises."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.algorithms.test_scaffold import STEPS, quadratic
from tests.helpers.gradients import client_gradient
from tests.helpers.similar import gap, least_curvature, optimum, servers

ROUNDS, LR = 50, 0.05


@pytest.mark.tiers(quick=[], slow=["falling"])
@pytest.mark.parametrize(("sampler", "decay"), [(t.Nice(3), None), (t.Independent(size=3.0), 20.0)], ids=["steady", "falling"])
def test_a_run_is_its_numpy_program(sampler, decay):
    problem, x = quadratic(), np.zeros(3)
    schedule = None if decay is None else t.schedules.Inverse(decay)
    trace = t.run(t.FedLin(sampler, LR, STEPS, schedule=schedule), problem, rounds=ROUNDS, seed=1)
    for number, cohort in enumerate(cohorts(sampler, problem, 1, ROUNDS)):
        g = sum((weight * client_gradient(problem, i, x) for i, _, weight in cohort), np.zeros(3))
        moved, lr = np.zeros(3), LR / (1 + number / (decay or np.inf))
        for i, share, _ in cohort:
            y = x
            for _ in range(STEPS[i]):
                y = y - lr / STEPS[i] * (client_gradient(problem, i, y) - client_gradient(problem, i, x) + g)
            moved = moved + share / sum(share for _, share, _ in cohort) * (y - x)
        x = x + moved
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


def check_fedlin(problem, rounds=400) -> np.ndarray:
    """Require f(x) - f(x*) to fall by its factor in each round with everyone; return the states."""
    largest = float(max(problem.constants().smoothness))
    lr = 1 / (2 * largest)
    s = lr * largest / 2
    factor = 1 - 2 * lr * least_curvature(problem) * (1 - s - s * (1 + s) ** 2)
    states = np.array(servers(t.FedLin(t.Full(), lr, STEPS), problem, rounds))
    gaps = np.array([gap(problem, x) for x in states])
    assert factor < 1
    assert np.all(gaps[1:] <= factor * gaps[:-1] + 1e-25 * max(1.0, gaps[0])) and gaps[-1] < gaps[0] / 2
    return states


@pytest.mark.longer
def test_every_round_falls_by_what_theory_promises_whatever_the_numbers_of_steps():
    np.testing.assert_allclose(check_fedlin(quadratic())[-1], optimum(quadratic()), rtol=0, atol=1e-10)


@pytest.mark.slow
def test_one_number_of_steps_is_mime():
    runs = [t.run(one, quadratic(), rounds=5).x for one in (t.FedLin(t.Nice(3), LR, 4), t.MimeMvr(t.Nice(3), LR / 4, 4))]
    np.testing.assert_allclose(*runs, rtol=0, atol=1e-14)
