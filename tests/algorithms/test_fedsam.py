"""FedSAM: against a plain program, and what it descends on quadratics."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.algorithms.test_scaffold import SHARES, STEPS, quadratic
from tests.helpers.gradients import client_gradient

ROUNDS, LR, RADIUS = 50, 0.05, 0.3


@pytest.mark.tiers(quick=[], longer=["falling"])
@pytest.mark.parametrize(("sampler", "decay"), [(t.Nice(3), None), (t.Independent(size=3.0), 20.0)], ids=["steady", "falling"])
def test_a_run_is_its_numpy_program(sampler, decay):
    problem, x = quadratic(), np.zeros(3)
    schedule = None if decay is None else t.schedules.Inverse(decay)
    trace = t.run(t.FedSam(sampler, LR, RADIUS, STEPS, schedule=schedule), problem, rounds=ROUNDS, seed=1)
    for number, cohort in enumerate(cohorts(sampler, problem, 1, ROUNDS)):
        total, mean, lr = sum(share for _, share, _ in cohort), np.zeros(3), LR / (1 + number / (decay or np.inf))
        for i, share, _ in cohort:
            y = x
            for _ in range(STEPS[i]):
                g = client_gradient(problem, i, y)
                y = y - lr * client_gradient(problem, i, y + RADIUS * g / np.linalg.norm(g))
            mean = mean + share / total * y
        x = mean if cohort else x
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


@pytest.mark.longer
def test_it_minimises_the_loss_and_the_length_of_its_gradient():
    """On quadratics, with one step and everyone: the gradient of sum_i lambda_i (f_i + radius |grad f_i|) is 0 where it stops."""
    x, (matrices, vectors) = t.run(t.FedSam(t.Full(), LR, RADIUS, 1), quadratic(), rounds=600, every=600).x, quadratic().rows
    gradients = matrices @ x - vectors
    lengths = np.linalg.norm(gradients, axis=1)
    sharpness = np.einsum("n,nij,nj->i", SHARES / lengths, matrices, gradients)
    np.testing.assert_allclose(SHARES @ gradients + RADIUS * sharpness, 0, atol=1e-11)
    assert np.linalg.norm(SHARES @ gradients) > 0.1


@pytest.mark.slow
def test_no_radius_is_fedavg_at_twice_the_queries():
    one, other = (t.run(a, quadratic(), rounds=5) for a in (t.FedSam(t.Nice(3), LR, 0.0, 4), t.FedAvg(t.Nice(3), LR, 4)))
    np.testing.assert_allclose(one.x, other.x, rtol=0, atol=1e-14)
    assert one.ledger.totals()["queries_total"] == 2 * other.ledger.totals()["queries_total"]
