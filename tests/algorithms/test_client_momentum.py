"""FedCM and SCAFFOLD-M: against plain programs, their rate with one step, and where they go with many."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_fednova import fixed_point
from tests.algorithms.test_references import cohorts
from tests.algorithms.test_scaffold import SHARES, STEPS, optimum, quadratic
from tests.helpers.gradients import client_gradient
from turnout.core.seeds import Seeds
from turnout.runs.session import Session

ROUNDS, LR, ALPHA, SERVER_LR = 50, 0.05, 0.3, 0.1


def program(sampler, decay, has_variates):
    """Each with gradients that are added up step by step, and lambda_i / p_i in the place of the paper's 1 / |S|."""
    problem, x, d, c = quadratic(), np.zeros(3), np.zeros(3), np.zeros(3)
    variates = np.zeros((6, 3))
    for number, cohort in enumerate(cohorts(sampler, problem, 1, ROUNDS)):
        fall, average, total = 1 / (1 + number / (decay or np.inf)), np.zeros(3), np.zeros(3)
        for i, share, weight in cohort:
            y, gradients = x, []
            for _ in range(STEPS[i]):
                gradients.append(client_gradient(problem, i, y))
                y = y - fall * LR * (ALPHA * (gradients[-1] - variates[i] + c) + (1 - ALPHA) * d)
            residual = np.mean(gradients, axis=0) - variates[i]
            average, total = average + weight * residual, total + share * residual
            variates[i] += has_variates * residual
        if cohort:
            d = ALPHA * (c + average) + (1 - ALPHA) * d
            x, c = x - fall * SERVER_LR * d, c + has_variates * total
    return x


@pytest.mark.tiers(quick=[], longer=["ScaffoldM-falling"])
@pytest.mark.parametrize(("sampler", "decay"), [(t.Nice(3), None), (t.Independent(size=3.0), 20.0)], ids=["steady", "falling"])
@pytest.mark.parametrize("make", [t.FedCm, t.ScaffoldM])
def test_a_run_is_its_numpy_program(make, sampler, decay):
    schedule = None if decay is None else t.schedules.Inverse(decay)
    algorithm = make(sampler, LR, ALPHA, SERVER_LR, STEPS, schedule=schedule)
    trace = t.run(algorithm, quadratic(), rounds=ROUNDS, seed=1)
    np.testing.assert_allclose(trace.x, program(sampler, decay, make is t.ScaffoldM), rtol=0, atol=1e-10)


def test_one_step_of_everyone_is_the_heavy_ball():
    """d <- alpha grad f(x) + (1 - alpha) d, x <- x - s d: the error falls by the spectral radius of this map of (x - x*, d)."""
    problem, rounds = quadratic(), 60
    hessian, best = np.tensordot(SHARES, problem.rows[0], 1), optimum(*problem.rows)
    momentum = np.hstack([ALPHA * hessian, (1 - ALPHA) * np.eye(3)])
    one_round = np.vstack([np.hstack([np.eye(3), np.zeros((3, 3))]) - SERVER_LR * momentum, momentum])
    trace = t.run(t.FedCm(t.Full(), LR, ALPHA, SERVER_LR, 1), problem, rounds=rounds)
    state = np.linalg.matrix_power(one_round, rounds) @ np.concatenate([-best, np.zeros(3)])
    np.testing.assert_allclose(trace.x - best, state[:3], rtol=1e-6, atol=1e-12)
    radius = max(abs(np.linalg.eigvals(one_round)))
    assert np.linalg.norm(trace.x - best) < 10 * radius**rounds * np.linalg.norm(best)


@pytest.mark.slow
def test_all_weight_on_new_gradients_is_fedavg_and_scaffold():
    options = {"lr": LR, "alpha": 1.0, "server_lr": 4 * LR, "steps": 4}
    for make, other in ((t.FedCm, t.FedAvg), (t.ScaffoldM, t.Scaffold)):
        runs = [t.run(one, quadratic(), rounds=5).x for one in (make(t.Full(), **options), other(t.Full(), LR, 4))]
        np.testing.assert_allclose(*runs, rtol=0, atol=1e-12)


@pytest.mark.longer
def test_variates_take_momentum_to_the_optimum():
    """Unequal numbers of steps. FedCM stops with d = 0, where the normalised changes of steps of lr alpha cancel."""
    problem, best = quadratic(), optimum(*quadratic().rows)
    scaffold = t.run(t.ScaffoldM(t.Nice(3), 0.02, ALPHA, 0.05, STEPS), problem, rounds=1500, every=1500)
    np.testing.assert_allclose(scaffold.x, best, rtol=0, atol=1e-11)
    drifted = t.run(t.FedCm(t.Full(), LR, ALPHA, SERVER_LR, STEPS), problem, rounds=1500, every=1500)
    fixed = fixed_point(LR * ALPHA, 1 / np.array(STEPS, float))
    np.testing.assert_allclose(drifted.x, fixed, rtol=0, atol=1e-11)
    assert np.linalg.norm(fixed - best) > 0.02 * np.linalg.norm(best)


@pytest.mark.longer
def test_the_servers_variate_is_the_mean_of_its_clients():
    """c = sum_i lambda_i c_i after every round, whatever replies are lost."""
    algorithm = t.ScaffoldM(t.Nice(3), 0.02, ALPHA, SERVER_LR, STEPS)
    session = Session(algorithm, quadratic(), seeds=Seeds.of(0), rounds=8, faults=t.Faults(0.4, "skip"))
    for _ in session.play():
        variates = session.progress.clients
        np.testing.assert_allclose(session.progress.server.variate, SHARES @ variates, atol=1e-13)
    assert np.linalg.norm(variates) > 0.1
