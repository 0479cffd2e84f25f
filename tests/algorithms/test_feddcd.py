"""FedDCD: against Algorithm 1 in NumPy, its theorems, and what no lost reply may break."""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest

import turnout as t
from tests.helpers.duals import (
    ALPHA,
    BETA,
    CLIENTS,
    EQUAL,
    FLAT,
    SHARES,
    SIZE,
    Exact,
    check_constraint,
    check_deliveries,
    check_nodes,
    check_theorem,
    cohorts,
    differences,
    owed,
    play,
    quadratic,
    solution,
)
from tests.helpers.federations import with_rows
from turnout.runs.setup import bind


def feddcd(**options) -> t.FedDcd:
    return t.FedDcd(t.Nice(SIZE), **{"solver": Exact()} | options)


def algorithm_1(problem, shares, rounds, lr, alpha):
    """Yield the mean of each round; all clients are brought up to date in every round."""
    y = np.zeros((CLIENTS, 3))
    for members in cohorts(rounds, 0):
        w = np.array([solution(problem, i, y[i]) for i in range(CLIENTS)])
        step, mean = differences(w, members, alpha, shares)
        y = y - lr * step
        yield mean


@pytest.mark.tiers(quick=[], longer=["unequal"])
@pytest.mark.parametrize(
    ("shares", "lr", "alpha"),
    [(EQUAL, 1.0, np.full(CLIENTS, ALPHA)), (SHARES, 0.8, np.linspace(0.5, 2.0, CLIENTS))],
    ids=["equal", "unequal"],
)
def test_both_deliveries_are_algorithm_1(shares, lr, alpha):
    """With equal clients, and with lambda_i and alpha_i of their own."""
    means = np.array(list(algorithm_1(quadratic(shares), shares, 25, lr, alpha)))
    check_deliveries(lambda delivery: feddcd(delivery=delivery, lr=lr, convexity=list(alpha)), means, shares)


@pytest.mark.tiers(quick=[], slow=["AccFedDcd-eager"])
@pytest.mark.parametrize(("method", "delivery"), [*product(["FedDcd", "AccFedDcd"], ["lazy", "eager"])])
def test_exact_solutions_do_not_depend_on_where_the_solver_starts(method, delivery):
    """Only crude ones do; to start from the server's parameters costs one more vector down in each exchange for solutions."""

    make, problem = partial(getattr(t, method), t.Nice(SIZE), delivery=delivery), quadratic()

    def both(solver):
        return (play(make(solver, warm_start=start), problem, 12).trace for start in ("client", "server"))

    own, handed = both(Exact())
    np.testing.assert_allclose(own.columns["value"], handed.columns["value"], rtol=1e-10)
    more, less = (trace.ledger.totals()["vectors_down"] for trace in (handed, own))
    assert more - less == 12 * {"FedDcd": 1, "AccFedDcd": 2}[method] * SIZE
    own, handed = both(t.client_solvers.Gradient(lr=0.05, steps=1))
    assert np.max(np.abs(own.columns["value"] - handed.columns["value"])) > 1e-3


@pytest.mark.longer
def test_theorem_4_1_holds():
    check_theorem(feddcd(answer="client"), 1 - (SIZE - 1) / (CLIENTS - 1) * ALPHA / BETA)


def virtual(session) -> np.ndarray:
    """Every client's y [n, 1, d], the steps that are owed being made."""
    clients, step = owed(session)
    return (clients.y - step)[:, None]


@pytest.mark.tiers(quick=[], longer=["lazy-skip"])
@pytest.mark.parametrize(("delivery", "missing"), [("lazy", "skip"), ("eager", "skip"), ("eager", "repeat")])
def test_no_lost_reply_breaks_the_constraint(delivery, missing):
    check_constraint(feddcd(delivery=delivery), missing, virtual)


SETS = [[0, 1, 2, 3], [3, 4], [4, 5, 6, 7, 0]]
LIKELY = [0.6, 0.2, 0.2, 0.5, 0.3, 0.4, 0.6, 0.2]
"""Probabilities of the clients, of sum 3."""


@pytest.mark.tiers(quick=[], slow=["Pivotal"])
@pytest.mark.parametrize(
    "sampler",
    [
        t.Pivotal(LIKELY, size=SIZE),
        t.WithReplacement([p / 3 for p in LIKELY], size=4),
        t.Subsets(SETS, [0.5, 0.2, 0.3]),
        t.Available(t.Independent(size=4.0, probability=t.LastNorm()), probability=0.7),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_any_sampler_goes_that_connects_the_clients(sampler):
    """Unequal chances, overlapping cohorts, clients that come and go, chances that are learnt; clients of unequal weight."""
    check_constraint(t.FedDcd(sampler, Exact()), "skip", virtual)


@pytest.mark.tiers(quick=[], slow=["lazy"])
@pytest.mark.parametrize("delivery", ["lazy", "eager"])
def test_a_sampler_learns_how_long_the_steps_are(delivery):
    """lambda_i alpha_i |w_i - mean| of those drawn in round 1, where y = 0, and nothing of the others."""
    problem, alpha = quadratic(SHARES), np.linspace(0.5, 2.0, CLIENTS)
    sampler = t.Independent(size=4.0, probability=t.LastNorm())
    session = play(t.FedDcd(sampler, Exact(), convexity=list(alpha), delivery=delivery), problem, 1)
    last = np.asarray(session.progress.samplers[0].own)
    drawn = np.flatnonzero(last >= 0)
    assert 1 < drawn.size < CLIENTS
    w = np.array([solution(problem, i, np.zeros(3)) for i in range(CLIENTS)])
    steps, _ = differences(w, drawn, alpha, SHARES)
    np.testing.assert_allclose(last[drawn], (SHARES * np.linalg.norm(steps, axis=1))[drawn], rtol=1e-12)


@pytest.mark.slow
def test_nodes_that_lose_replies_give_the_compiled_run():
    check_nodes(feddcd(delivery="eager"), virtual)


@pytest.mark.longer
def test_inexact_solutions_suffice_and_a_missed_one_is_an_error():
    """Theorem 5.2's delta = (1 - kappa) / 4 and lr = 1 / 4, logistic clients; one gradient step does not reach that delta."""
    problem = with_rows()
    kappa = 2 * problem.mu / (32 * 3 * problem.constants().smoothness.max())
    inexact = t.FedDcd(t.Nice(3), t.client_solvers.Gradient(), lr=0.25, convexity=problem.mu, delta=(1 - kappa) / 4)
    start, end = t.run(inexact, problem, rounds=2000, every=2000, metrics=("gradient",)).columns["gradient"]
    assert end < 1e-8 * start
    with pytest.raises(t.UserError, match="were not solved as well as wanted: give the local solver more steps"):
        t.run(replace(inexact, solver=t.client_solvers.Gradient(steps=1)), problem, rounds=1, metrics=("gradient",))


def local_steps(problem, solver, delta):
    """The most queries that a client of FedDCD made in each round, on the way to 1e-9 of the first squared distance."""
    algorithm = feddcd(solver=solver, convexity=ALPHA, delta=delta)
    trace = t.run(algorithm, problem, rounds=400, metrics=("distance",))
    assert trace.columns["distance"][-1] < 1e-9 * trace.columns["distance"][0]
    return np.diff(trace.frame["queries_slowest"])


@pytest.mark.longer
@pytest.mark.parametrize("delta", [0.2, 1e-4])
def test_local_steps_depend_on_delta_and_not_on_the_accuracy(delta):
    """Steps of 1 / beta need kappa log(1 + kappa (1 + 1 / sqrt(delta))) at most; Newton's last rounds no more than its first."""
    problem = quadratic()
    kappa = problem.constants().smoothness.max() / ALPHA
    queries = local_steps(problem, t.client_solvers.Gradient(), delta)
    assert 1 < queries.max() <= 1 + np.ceil(kappa * np.log(1 + kappa * (1 + delta**-0.5)))
    queries = local_steps(problem, t.client_solvers.NewtonCg(), delta)
    assert queries[-50:].max() <= queries[:50].max()


@pytest.mark.longer
def test_epochs_with_reduced_variance_do_not_depend_on_the_accuracy():
    """SVRG's queries grow with log(1 / delta) at most, and are as many near the optimum as at the start."""
    problem, mean = with_rows(), {}
    solver = t.client_solvers.Svrg(lr=0.3 / problem.constants().smoothness.max())
    for delta in (0.2, 1e-4):
        inexact = t.FedDcd(t.Nice(3), solver, lr=0.25, convexity=problem.mu, delta=delta)
        trace = t.run(inexact, problem, rounds=400, metrics=("gradient",))
        assert trace.columns["gradient"][-1] < 1e-9 * trace.columns["gradient"][0]
        queries = np.diff(trace.frame["queries_slowest"])
        mean[delta] = queries[:100].mean()
        assert queries[-100:].mean() == pytest.approx(mean[delta], rel=0.05)
    assert mean[0.2] < mean[1e-4] < mean[0.2] * np.log(1e4) / np.log(5)


@pytest.mark.parametrize(
    ("algorithm", "problem", "words"),
    [
        (t.FedDcd(t.Nice(1), Exact()), quadratic(), "fewer than two clients a round"),
        (t.FedDcd(t.Delegate(2), Exact()), quadratic(), "fewer than two clients a round"),
        (t.FedDcd(t.Importance(), Exact()), quadratic(), "fewer than two clients a round"),
        (t.FedDcd(t.Stratified(strata=[0] * CLIENTS), Exact()), quadratic(), "fewer than two clients a round"),
        (t.FedDcd(t.Nice(2), Exact()), FLAT, "client 1 has mu_i = 0"),
        (feddcd(convexity=[1.0, 2.0]), quadratic(), "one number or 8, one for each client, but has 2"),
        (t.FedDcd(t.PowerOfChoice(3, candidates=5), Exact()), quadratic(), "take another sampler"),
    ],
)
def test_what_makes_no_step_is_one_sentence(algorithm, problem, words):
    with pytest.raises(t.UserError, match=words):
        bind(algorithm, problem)


def test_delta_is_a_fraction():
    with pytest.raises(t.UserError, match="delta must be less than 1"):
        replace(feddcd(), delta=1.0)
