"""SHED: against a plain program, and against its bound on quadratics."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_fednl import client_sum, conditioned, everyone, optimum
from tests.helpers.examples import logistic, quadratic
from tests.helpers.gradients import client_gradient, client_hessian, client_value

D = 5


def approximated(values, vectors, known) -> np.ndarray:
    """The matrix with the largest `known` eigenpairs, all others having the next eigenvalue; all in ascending order."""
    order = np.argsort(values)[::-1]
    rho = values[order[min(known, len(values) - 1)]]
    return rho * np.eye(len(values)) + sum((values[j] - rho) * np.outer(vectors[:, j], vectors[:, j]) for j in order[:known])


def program(problem, rounds, x, pairs, renewals):
    """Yield x, and the number of trials so far, at first and after each round."""
    all_of_them, trials = everyone(problem), 0
    yield x, trials
    for number in range(1, rounds + 1):
        if number in renewals:
            eigen, known = [np.linalg.eigh(client_hessian(problem, i, x)) for i in range(problem.clients)], 0
        known = min(known + pairs, D)
        hessian = sum(share * approximated(*eigen[i], known) for i, share, _ in all_of_them)
        gradient, value = (client_sum(of, problem, all_of_them, x) for of in (client_gradient, client_value))
        direction, length = -np.linalg.solve(hessian, gradient), 1.0
        goal = lambda length: value + length * gradient @ direction / 4 + 4 * np.finfo(float).eps * abs(value)  # noqa: B023, E731
        trials += 1
        while client_sum(client_value, problem, all_of_them, x + length * direction) > goal(length):
            length, trials = length / 2, trials + 1
        x = x + length * direction
        yield x, trials


@pytest.mark.tiers(quick=[], slow=["one"])
@pytest.mark.parametrize("pairs", [1, 2], ids=["one", "two"])
def test_a_run_is_its_numpy_program_from_a_far_start(pairs):
    """The rounds 1, 2, 3, 5, 8, 13, 21 and 34 begin anew; between the last ones, clients run out of eigenvectors."""
    problem, start, rounds = conditioned(1e-3), 20 * np.ones(D), 50
    trace = t.run(t.Shed(t.Full(), pairs), problem, rounds=rounds, start=start)
    *_, (x, trials) = program(problem, rounds, start, pairs, (1, 2, 3, 5, 8, 13, 21, 34))
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)
    np.testing.assert_allclose(trace.x, optimum(problem), rtol=0, atol=1e-8)
    totals = trace.ledger.totals()
    assert totals["exchanges"] == rounds + trials
    assert totals["rejected"] == trials - rounds > 0
    assert totals["bytes_up"] == 8 * 12 * (rounds * (1 + D + pairs * (D + 1) + 1) + trials)
    assert totals["queries_total"] == 12 * (rounds + trials + 8 * D)


def check_shed(problem) -> np.ndarray:
    """Return the gaps."""
    trace = t.run(t.Shed(t.Full(), renewals="never"), problem, rounds=D, metrics=("gap",))
    values = [np.linalg.eigvalsh(client_hessian(problem, i, np.zeros(D)))[::-1] for i in range(problem.clients)]
    gaps = trace.frame["gap"].to_numpy()
    for number, (gap, new) in enumerate(zip(gaps, gaps[1:], strict=False), start=1):
        share = min(own[-1] / own[min(number, D - 1)] for own in values)
        assert new <= (1 - share) ** 2 * gap + 1e-13 * max(1.0, gaps[0])
    assert gaps[-1] < gaps[0] / 100
    return gaps


@pytest.mark.longer
def test_on_quadratics_the_gap_is_within_its_bound_and_ends_at_zero():
    gaps = check_shed(quadratic())
    assert gaps[D - 2] > 1e-9 > 1e-13 > gaps[D - 1]


@pytest.mark.slow
def test_lost_replies_leave_both_sides_with_the_same_pairs():
    """A client whose reply is lost sends the same pairs again, and one that missed a renewal goes on from the old one."""
    problem = logistic()
    trace = t.run(t.Shed(t.Full(), 2), problem, rounds=40, seed=1, faults=t.Faults(0.2, "skip"), every=40)
    assert np.all(np.isfinite(trace.x))
    assert trace.ledger.totals()["arrivals"] < trace.ledger.totals()["contacts"]
