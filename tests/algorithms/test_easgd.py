"""EASGD: against a plain program, and where its elastic force leads."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts, local_descent
from tests.algorithms.test_scaffold import SHARES, STEPS, quadratic
from tests.helpers.gradients import client_gradient

ROUNDS, LR, ALPHA, BETA = 50, 0.05, 0.3, 0.6


@pytest.mark.tiers(quick=[], longer=["nice"])
@pytest.mark.parametrize("sampler", [t.Nice(3), t.Independent(size=3.0)], ids=["nice", "independent"])
def test_a_run_is_its_numpy_program(sampler):
    """Clients take unequal numbers of steps."""
    problem, x, own = quadratic(), np.zeros(3), np.zeros((6, 3))
    trace = t.run(t.Easgd(sampler, LR, ALPHA, BETA, steps=STEPS), problem, rounds=ROUNDS, seed=1)
    for cohort in cohorts(sampler, problem, 1, ROUNDS):
        moved = np.zeros(3)
        for i, _, weight in cohort:
            distance = own[i] - x
            first = own[i] - LR * client_gradient(problem, i, own[i]) - ALPHA * distance
            own[i] = local_descent(problem, i, first, LR, STEPS[i] - 1)
            moved += weight * distance
        x = x + BETA * moved
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


@pytest.mark.longer
def test_everyone_with_one_step_goes_to_the_minimum_of_the_envelopes():
    """For quadratics the points v_i of the envelopes solve (A_i + rho I) v_i = b_i + rho x, and their weighted mean is x."""
    problem, rho = quadratic(), ALPHA / LR
    matrices, vectors = problem.rows
    x = t.run(t.Easgd(t.Full(), LR, ALPHA, BETA, steps=1), problem, rounds=2000, every=2000).x
    inverses = np.linalg.inv(matrices + rho * np.eye(3))
    expected = np.linalg.solve(
        np.eye(3) - rho * np.tensordot(SHARES, inverses, 1), np.einsum("i,ijk,ik->j", SHARES, inverses, vectors)
    )
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-8)
    best = np.linalg.solve(np.tensordot(SHARES, matrices, 1), SHARES @ vectors)
    assert np.linalg.norm(x - best) > 0.1 * np.linalg.norm(best)


@pytest.mark.longer
def test_clients_with_one_optimum_meet_there():
    one = t.Quadratic.random(1, 3, seed=4).rows[1][0]
    matrices = quadratic().rows[0]
    problem = t.Quadratic.of(matrices, matrices @ one, weights=SHARES)
    trace = t.run(t.Easgd(t.Nice(3), LR, ALPHA, BETA, steps=3), problem, rounds=400, every=400)
    np.testing.assert_allclose(trace.x, one, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("field", "value"), [("alpha", 0.0), ("alpha", 1.5), ("beta", 0.0)])
def test_bad_numbers_are_refused(field, value):
    with pytest.raises(t.UserError, match=rf"Easgd\.{field} must be"):
        t.Easgd(t.Nice(3), LR, **({"alpha": ALPHA} | {field: value}))
