"""Baselines of cost-aware client selection that go to the optimum: plain programs, hand counts, invariants, bounds."""

import numpy as np
import pytest

import turnout as t
from tests.helpers.baselines import (
    CHANCE,
    CLIENTS,
    COHORTS,
    DIMENSION,
    EACH,
    EXACT,
    LAM,
    LR,
    ROUNDS,
    SEED,
    SIZE,
    Plain,
    X,
    counted,
    feddyn,
)
from turnout.algorithms import Scaffnew
from turnout.core.seeds import Seeds
from turnout.runs.session import Session
from turnout.runs.setup import bind
from turnout.runs.sweep import cells_of
from turnout.theory.applicability import theory_of

EQUAL = np.full(CLIENTS, 1 / CLIENTS)

SCALARS = {"scaffnew": (4, 0), "lazy-dane": ((8 + 1) / 3, 8 / 3)}
"""Bytes of the numbers that go with each vector, down and up: the steps; lam, whether anyone was heard, and that this one was."""


def play(name, rounds, loss=0.0, **options) -> Session:
    """Play in one compiled program for all losses and numbers of rounds."""
    faults = t.Faults(loss, "skip")
    return Session(EXACT[name].algorithm, Plain().problem, seeds=Seeds.of(SEED), rounds=rounds, faults=faults, **options)


@pytest.mark.tiers(quick=[], longer=["gd"])
@pytest.mark.parametrize("name", EXACT)
def test_a_run_is_its_plain_program_and_its_ledger_a_hand_count(name):
    trace = play(name, ROUNDS).run().trace
    x, counts = EXACT[name].played()
    np.testing.assert_allclose(trace.x, x, atol=1e-12)
    assert counted(trace) == counts
    totals, scalars = trace.ledger.totals(), SCALARS.get(name, (0, 0))
    assert totals["bytes_up"] == (8 * DIMENSION + scalars[1]) * totals["vectors_up"]
    assert totals["bytes_down"] == (8 * DIMENSION + scalars[0]) * totals["vectors_down"]


@pytest.mark.tiers(quick=["gd"], longer=["scaffnew"])
@pytest.mark.parametrize("name", EXACT)
def test_it_converges_to_the_optimum(name):
    np.testing.assert_allclose(play(name, 1500, every=1500).run().trace.x, Plain().optimum, rtol=0, atol=1e-10)


KEPT = {
    "lazy-dane": lambda server, clients: (server.heard.gradient, clients.gradient),
    "feddyn": lambda server, clients: (server.variate, clients),
    "scaffold-sag": lambda server, clients: (server.variate, clients.gradient),
    "scaffnew": lambda server, clients: (X, clients.h - CHANCE / LR * (clients.z - server.owed)),
}
"""What the server keeps as the mean of what the clients keep, and that; for Scaffnew the mean of all h_i is 0."""


@pytest.mark.tiers(quick=["scaffnew"], longer=["feddyn"])
@pytest.mark.parametrize("name", KEPT)
def test_the_servers_mean_is_that_of_its_clients_though_replies_are_lost(name):
    f, session = Plain(), play(name, 2000, loss=0.3, every=50)
    for _ in session.play():
        mean, each = (np.asarray(part) for part in KEPT[name](session.progress.server, session.progress.clients))
        np.testing.assert_allclose(f.shares @ each, mean, atol=1e-11)
    assert np.abs(each).max() > 0.1
    np.testing.assert_allclose(session.trace.x, f.optimum, rtol=0, atol=1e-9)
    totals = session.trace.ledger.totals()
    assert totals["aggregated"] == totals["arrivals"] < totals["contacts"]


def test_other_signs_and_brackets_make_feddyn_diverge():
    """h as it is printed, lam / n (sum_S x_i - x) in place of lam / n sum_S (x_i - x), and with the opposite sign."""
    f, draws = Plain(shares=EQUAL), np.random.default_rng(0).integers(len(COHORTS), size=200)

    def distance(renew) -> float:
        state = (X, X, EACH)
        for draw in draws:
            state, _ = feddyn(f, state, 1, COHORTS[draw], renew)
        return np.linalg.norm(state[0] - f.optimum)

    n = CLIENTS
    assert distance(lambda h, moved, x, _: h - LAM / n * moved.sum(0)) < 1e-8
    assert distance(lambda h, moved, x, _: h - LAM / n * (moved.sum(0) + (SIZE - 1) * x)) > 1e3
    assert distance(lambda h, moved, x, _: h + LAM / n * moved.sum(0)) > 1e3


@pytest.mark.longer
def test_scaffnews_lyapunov_function_falls_in_expectation():
    """q^-t Psi_t with q = 1 - min(lr mu, p^2) is a supermartingale in local steps t, so that E[q^-t Psi_t] <= Psi_0 holds at the
    random t of the 12th communication too.
    """
    f = Plain(t.Quadratic.of(*Plain().problem.rows), EQUAL)
    lr, p, seeds = 0.1, np.sqrt(0.1), range(200)
    session = Session(
        Scaffnew(t.Nice(SIZE), lr, p), f.problem, seeds=Seeds.of(0), rounds=12, every=12, cells=cells_of({}, seeds)
    ).run()
    server, clients = session.progress.server, session.progress.clients
    h = np.asarray(clients.h - p / lr * (clients.z - server.owed))
    best = np.array([f.slope(i, f.optimum) for i in range(CLIENTS)])
    points = np.broadcast_to(np.asarray(server.x)[:, None], h.shape)
    psi = np.sum((points - f.optimum) ** 2 + (lr / p) ** 2 * (h - best) ** 2, axis=(1, 2))
    first = CLIENTS * f.optimum @ f.optimum + (lr / p) ** 2 * np.sum(best**2)
    steps = np.array([trace.ledger.totals()["queries_slowest"] for trace in session.traces])
    ratios = 0.9 ** -steps.astype(float) * psi / first
    assert np.mean(ratios) <= 1 + 5 * np.std(ratios) / np.sqrt(len(seeds))
    assert np.std(ratios) < 1 and 12 < steps.min() < steps.max()


@pytest.mark.slow
def test_nodes_that_are_asked_twice_give_the_compiled_run():
    one, other = (play("scaffold-sag", 3, loss=0.3, engine=engine).run().trace for engine in ("compiled", "nodes"))
    np.testing.assert_allclose(one.x, other.x, atol=1e-12)
    np.testing.assert_array_equal(one.columns["counts"], other.columns["counts"])


def test_no_theorem_of_other_dual_methods_is_said_to_be_about_scaffnew():
    problem = Plain().problem
    assert theory_of(bind(EXACT["scaffnew"].algorithm, problem), problem).bound == "no theorem here bounds |x - x*| for Scaffnew"
