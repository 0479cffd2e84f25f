"""lr = "auto": against a plain program, in any units, what it costs, and who knows it not."""

import tomllib

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.algorithms.test_scaffold import quadratic
from tests.helpers.gradients import client_gradient
from turnout.client_solvers.local_sgd import PROBE
from turnout.data import IidSplit, load
from turnout.experiment.config import Reader
from turnout.testing import check

ROUNDS, STEPS, MU = 30, 3, 0.5
SAMPLER = t.Nice(3)


@pytest.fixture(scope="module")
def trace():
    return t.run(t.FedProx(SAMPLER, "auto", STEPS, mu=MU), quadratic(), rounds=ROUNDS, seed=1)


def local_steps(problem, i, x, lr):
    """The last point of a client, and L_i."""
    slope = lambda y: client_gradient(problem, i, y) + MU * (y - x)  # noqa: E731
    y, rate, bend = x, lr or PROBE / np.linalg.norm(slope(x)), 0.0
    for _ in range(STEPS):
        new = y - rate * slope(y)
        bend = max(bend, np.linalg.norm(slope(new) - slope(y)) / np.linalg.norm(new - y))
        y, rate = new, min(rate, 2 / bend) if lr else 1 / bend
    return y, bend


@pytest.mark.longer
def test_a_run_is_its_numpy_program(trace):
    problem, x, lr = quadratic(), np.zeros(3), 0.0
    for cohort in cohorts(SAMPLER, problem, 1, ROUNDS):
        found = [local_steps(problem, i, x, lr) for i, *_ in cohort]
        shares = np.array([share for _, share, _ in cohort]) / sum(share for _, share, _ in cohort)
        best = 1 / (shares @ np.array([bend for _, bend in found]))
        x, lr = shares @ np.array([y for y, _ in found]), min(2 * lr, best) if lr else best
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


def test_a_round_costs_a_number_more_each_way_and_a_query(trace):
    """Of three parameters and one number each way, in double precision."""
    totals, asked = trace.ledger.totals(), 3 * ROUNDS
    assert totals["exchanges"] == ROUNDS and totals["contacts"] == totals["arrivals"] == asked
    assert totals["vectors_up"] == totals["vectors_down"] == asked
    assert totals["bytes_up"] == totals["bytes_down"] == asked * (3 + 1) * 8
    assert totals["queries_slowest"] * 3 == totals["queries_total"] == asked * (STEPS + 1)


@pytest.mark.slow
def test_units_of_the_loss_do_not_matter():
    """With 10^6 f in the place of f every lr is 10^6 times smaller, and the points are the same."""
    matrices, vectors = quadratic().rows
    algorithm = t.FedAvg(SAMPLER, steps=STEPS)
    plain, large = (t.run(algorithm, t.Quadratic.of(c * matrices, c * vectors), rounds=ROUNDS).x for c in (1.0, 1e6))
    np.testing.assert_allclose(plain, large, rtol=1e-8)


@pytest.mark.slow
def test_batches_take_two_queries_a_step_and_a_schedule_is_a_factor():
    data = load("breast_cancer").normalized("columns")
    problem = t.Logistic.of(data, IidSplit(clients=6, seed=0).split(data), mu=0.01)
    algorithm = t.FedAvg(SAMPLER, "auto", batch=10, steps=2, schedule=t.schedules.Inverse(5.0))
    trace = t.run(algorithm, problem, rounds=20, metrics=("value",))
    assert trace.ledger.totals()["queries_total"] == 20 * 3 * 2 * 2
    values = trace.frame["value"].to_numpy()
    assert values[-1] < 0.5 * values[0]


@pytest.mark.everything
@pytest.mark.parametrize("batch", [None, 4])
def test_all_engines_agree(batch):
    data = load("breast_cancer").normalized("columns")
    check(t.FedAvg(SAMPLER, "auto", 2, batch=batch), t.Logistic.of(data, IidSplit(clients=6, seed=0).split(data), mu=0.01))


CONFIGURATION = """
[problem]
kind = "logistic"
data = "breast_cancer"
[split]
kind = "iid"
clients = 4
[sampler]
kind = "full"
[algorithm]
kind = "KIND"
lr = "auto"
"""


def configured(kind):
    text = CONFIGURATION.replace("KIND", kind)
    return Reader("auto.toml", text, tomllib.loads(text)).experiment("auto")


def test_a_configuration_names_it_and_is_written_as_it_was_read():
    assert 'lr = "auto"' in configured("fedavg").to_toml()
    assert configured("fedavg").algorithm == t.FedAvg(t.Full())


def test_where_it_is_not_known_one_sentence_says_so():
    with pytest.raises(t.UserError, match=r"auto.toml, line 12: algorithm.lr: must be a number greater than 0, but it is 'auto'"):
        configured("fednova")
    problem = quadratic()
    with pytest.raises(
        t.UserError, match=r'Ditto.lr cannot be "auto", which FedAvg knows but not its variants: give lr a number'
    ):
        t.run(t.Ditto(t.Full(), "auto", lam=0.1, own_lr=0.1), problem, rounds=1)
    with pytest.raises(t.UserError, match=r'a sweep of lr needs a number to begin with: give FedAvg another lr than "auto"'):
        t.sweep(t.FedAvg(t.Full()), problem, {"lr": [0.1]}, rounds=1)


def test_privacy_bounds_replies_and_so_needs_a_number():
    with pytest.raises(t.UserError, match=r"clips replies, .* give lr a number"):
        t.run(t.FedAvg(t.Nice(3)), quadratic(), rounds=1, privacy=t.Privacy(1.0, 1.0, 1e-5))
