"""AdaComm: against a plain program, what it costs, and what fewer and fewer local steps are good for."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts, local_descent
from tests.algorithms.test_scaffold import SHARES, quadratic
from tests.helpers.gradients import client_value
from turnout.data import IidSplit, load

ROUNDS, LR, STEPS = 50, 0.05, 12


def least(problem) -> float:
    """sum_i lambda_i min f_i, which is below f."""
    return float(SHARES @ [-vector @ np.linalg.solve(matrix, vector) / 2 for matrix, vector in zip(*problem.rows, strict=True)])


def program(problem, sampler, interval, rate, minimum):
    """x at the end, the queries of each round, and how b changed."""
    x, period, first, queries, changes = np.zeros(3), STEPS, None, [], []
    for number, cohort in enumerate(cohorts(sampler, problem, 1, ROUNDS)):
        lr, measured = LR * rate ** (number // 6), number % interval == 0
        steps = min(int(np.ceil(np.sqrt(LR / lr) * period)), STEPS)
        queries.append(len(cohort) * (steps + measured))
        if not cohort:
            continue
        shares = np.array([share for _, share, _ in cohort])
        excess = max(shares @ [client_value(problem, i, x) for i, *_ in cohort] / shares.sum() - minimum, 0)
        x = shares @ [local_descent(problem, i, x, lr, steps) for i, *_ in cohort] / shares.sum()
        if measured and first is not None:
            wished = max(np.sqrt(excess / first) * STEPS, 1)
            changes.append("by the loss" if np.ceil(wished) < np.ceil(period) else "halved" if period > 1 else "at 1")
            period = wished if changes[-1] == "by the loss" else max(period / 2, 1)
        first = excess if first is None and measured else first
    return x, queries, changes


RUNS = {"nice": (t.Nice(4), 3, 1.0), "lr-falls": (t.Independent(size=3.0), 4, 0.5)}


@pytest.mark.tiers(quick=[], longer=["lr-falls"])
@pytest.mark.parametrize("name", RUNS)
def test_a_run_and_its_queries_are_those_of_a_numpy_program(name):
    (sampler, interval, rate), problem = RUNS[name], quadratic()
    options = {"schedule": t.schedules.Step(rate, 6.0), "interval": interval, "minimum": least(problem)}
    trace = t.run(t.AdaComm(sampler, LR, STEPS, **options), problem, rounds=ROUNDS, seed=1)
    x, queries, changes = program(problem, sampler, interval, rate, options["minimum"])
    assert {*changes} == {"by the loss", "halved", "at 1"}
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)
    assert np.diff(trace.frame["queries_total"]).tolist() == queries


@pytest.mark.longer
def test_many_steps_at_first_and_one_in_the_end_have_the_best_of_both():
    """With everyone and one step x goes to x*; the f_i have optima that are far apart, so that FedAvg stays away from it."""
    problem = quadratic()
    algorithm = t.AdaComm(t.Full(), LR, STEPS, interval=2, minimum=least(problem))
    options = {"rounds": 60, "metrics": ("distance",), "every": 1}
    ours, many, one = (
        t.run(algorithm, problem, **options).columns["distance"]
        for algorithm in (algorithm, *(t.FedAvg(t.Full(), LR, steps) for steps in (STEPS, 1)))
    )
    assert ours[1] == many[1] < 0.5 * one[1]
    assert ours[-1] < 1e-2 * many[-1]


@pytest.mark.longer
def test_without_a_number_it_steps_as_clients_measure():
    """Each of three clients sends x, its loss and its curvature, and is told the steps, whether to measure, x and lr."""
    data = load("breast_cancer").normalized("columns")
    problem = t.Logistic.of(data, IidSplit(clients=6, seed=0).split(data), mu=0.01)
    trace = t.run(t.AdaComm(t.Nice(3), interval=5), problem, rounds=20, metrics=("value",))
    values, totals = trace.frame["value"].to_numpy(), trace.ledger.totals()
    assert values[-1] < 0.3 * values[0]
    assert totals["bytes_up"] == 60 * 8 * (30 + 2) and totals["bytes_down"] == 60 * (8 * (30 + 1) + 4 + 1)


@pytest.mark.parametrize(("field", "value"), [("steps", 0), ("interval", 0)])
def test_bad_numbers_are_refused(field, value):
    with pytest.raises(t.UserError, match=rf"AdaComm\.{field} must be"):
        t.AdaComm(t.Nice(3), LR, **{field: value})
