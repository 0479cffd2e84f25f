"""Point-SAGA: against a program with a table of gradients, its bound, lost replies, and FedDCD for the same bytes."""

from functools import cache

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.helpers.duals import optimum
from tests.helpers.theorems import Theorem
from turnout.core.seeds import Seeds
from turnout.runs.session import Session

CLIENTS, SIZE, ALPHA, BETA, GAMMA = 8, 3, 1.0, 50.0, 0.1
EQUAL = np.full(CLIENTS, 1 / CLIENTS)
SHARES = np.array([3.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 2.0]) / 12
EXACT = t.client_solvers.NewtonCg(tolerance=1e-13, relative=1e-13)


@cache
def quadratic(equal: bool) -> t.Quadratic:
    made = t.Quadratic.random(CLIENTS, 3, ALPHA, BETA, seed=0)
    return t.Quadratic.of(*made.rows, weights=EQUAL if equal else SHARES)


def point_saga(sampler, problem, shares, seed) -> np.ndarray:
    """x after five rounds of Defazio's Algorithm 1 with the mean of a cohort's proximal points, their gradients in a table."""
    matrices, vectors = problem.rows
    x, table = np.zeros(3), np.zeros((CLIENTS, 3))
    for cohort in cohorts(sampler, problem, seed):
        if not cohort:
            continue
        points, members = [], [i for i, *_ in cohort]
        for i in members:
            centre = x + GAMMA * (table[i] - shares @ table)
            points.append(np.linalg.solve(np.eye(3) + GAMMA * matrices[i], centre + GAMMA * vectors[i]))
        x = np.average(points, axis=0, weights=shares[members])
        for i, point in zip(members, points, strict=True):
            table[i] = matrices[i] @ point - vectors[i]
    return x


@pytest.mark.tiers(quick=[], longer=["sampler0-True"])
@pytest.mark.parametrize(("sampler", "equal"), [(t.Nice(1), True), (t.Nice(SIZE), False), (t.Independent(size=3.0), False)])
def test_a_run_is_its_numpy_program(sampler, equal):
    trace = t.run(t.PointSaga(sampler, EXACT, GAMMA), quadratic(equal), rounds=5, seed=1)
    np.testing.assert_allclose(trace.x, point_saga(sampler, quadratic(equal), EQUAL if equal else SHARES, 1), atol=1e-11)
    totals = trace.ledger.totals()
    assert totals["vectors_down"] == totals["vectors_up"] == totals["contacts"]
    assert totals["bytes_down"] == totals["bytes_up"] == 24 * totals["contacts"]


@pytest.mark.tiers(quick=[], slow=["repeat"])
@pytest.mark.parametrize("missing", ["skip", "repeat"])
def test_the_server_knows_the_dual_variables_of_clients_whose_replies_are_lost(missing):
    """sum_i lambda_i y_i to rounding, though one gradient step solves each problem but roughly; y_i = grad f_i(x*) at last."""
    problem, rough = quadratic(False), t.client_solvers.Gradient(lr=1 / (BETA + 1 / GAMMA), steps=1, tolerance=0.0)
    session = Session(
        t.PointSaga(t.Nice(SIZE), rough, GAMMA), problem, seeds=Seeds.of(0), rounds=2000, every=500, faults=t.Faults(0.2, missing)
    )
    for _ in session.play():
        duals, server = np.asarray(session.progress.clients), session.progress.server
        np.testing.assert_allclose(SHARES @ duals, server.variate, atol=1e-11)
    x = optimum(problem, SHARES)
    np.testing.assert_allclose(server.x, x, atol=1e-9)
    np.testing.assert_allclose(duals, problem.rows[0] @ x - problem.rows[1], atol=1e-7)
    assert np.abs(duals).max() > 1


COARSE = t.codecs.TopK(count=2, bits=3)


@pytest.mark.tiers(quick=[], slow=["codec2"])
@pytest.mark.parametrize("codec", [COARSE, t.codecs.Qsgd(bits=2), t.codecs.RandK(count=2)])
def test_the_server_knows_the_dual_variables_of_clients_that_compress_their_replies(codec):
    """sum_i lambda_i y_i to rounding, and y_i = grad f_i(x*) at last, where a codec of the exchange stops short of it."""
    problem, rounds, down = quadratic(False), 2000, t.Exchange(down=COARSE, feedback="ef21")
    algorithm, faults = t.PointSaga(t.Nice(SIZE), EXACT, GAMMA, codec), t.Faults(0.2, "skip")
    session = Session(algorithm, problem, seeds=Seeds.of(0), rounds=rounds, every=500, faults=faults, exchange=down)
    for _ in session.play():
        duals, server = np.asarray(session.progress.clients.own), session.progress.server
        np.testing.assert_allclose(SHARES @ duals, server.variate, atol=1e-11)
    x = optimum(problem, SHARES)
    np.testing.assert_allclose(server.x, x, atol=1e-9)
    np.testing.assert_allclose(duals, problem.rows[0] @ x - problem.rows[1], atol=1e-7)
    exchange = t.Exchange(up=codec, down=COARSE, feedback="ef21")
    trace = t.run(t.PointSaga(t.Nice(SIZE), EXACT, GAMMA), problem, rounds=rounds, every=rounds, exchange=exchange)
    assert np.linalg.norm(trace.x - x) > 1e-6


@pytest.mark.slow
def test_compressed_replies_are_the_same_on_separate_nodes_and_take_their_bits():
    algorithm = t.PointSaga(t.Nice(SIZE), EXACT, GAMMA, COARSE)
    compiled, nodes = (t.run(algorithm, quadratic(False), rounds=4, engine=engine) for engine in ("compiled", "nodes"))
    np.testing.assert_allclose(nodes.x, compiled.x, atol=1e-10)
    assert nodes.ledger.totals() == compiled.ledger.totals()
    # Two numbers of three bits and two bytes for the largest; marks on three numbers.
    assert compiled.ledger.totals()["bytes_up"] == 4 * SIZE * (1 + 2 + 1)


def saga_theorem(problem) -> Theorem:
    """gamma^2 = tau / (n mu L)."""
    constants, x = problem.constants(), optimum(problem, EQUAL)
    mu, largest = float(min(constants.convexity)), float(max(constants.smoothness))
    gamma = float(np.sqrt(SIZE / (CLIENTS * mu * largest)))
    slopes2 = np.sum((problem.rows[0] @ x - problem.rows[1]) ** 2)
    a, b = 2 * gamma * mu * largest / (mu + largest), 2 / (gamma * (mu + largest))
    factor = max(1 / (1 + a), 1 - SIZE / CLIENTS * b / (1 + b))
    constant = CLIENTS / SIZE * (1 + b) / (1 + a)
    first = x @ x + gamma**2 * constant * slopes2 / CLIENTS
    return Theorem(problem, t.PointSaga(t.Nice(SIZE), EXACT, gamma), "distance", first, factor)


@pytest.mark.slow
def test_its_bound_holds_and_feddcd_is_far_behind_for_the_same_bytes():
    theorem, rounds = saga_theorem(quadratic(True)), 60
    theorem.check(rounds, seeds=40, every=6, fall=100)
    swept, rival = (
        t.sweep(algorithm, theorem.problem, {}, seeds=range(40), rounds=rounds, every=rounds, metrics=("distance",)).traces
        for algorithm in (theorem.algorithm, t.FedDcd(t.Nice(SIZE), EXACT))
    )
    left, rivals = (np.mean([trace.columns["distance"][-1] for trace in traces]) for traces in (swept, rival))
    assert rivals > 100 * left
    assert swept[0].ledger.totals()["bytes_up"] == rival[0].ledger.totals()["bytes_up"]


@pytest.mark.slow
def test_clients_that_are_not_strongly_convex_will_do():
    """One of three f_i is flat in a direction, where FedDCD has no step; their mean is not."""
    flat = t.Quadratic.of(np.stack([np.eye(2), np.diag([1.0, 0.0]), np.eye(2)]), np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]]))
    trace = t.run(t.PointSaga(t.Nice(2), EXACT, 1.0), flat, rounds=200)
    np.testing.assert_allclose(trace.x, [4 / 3, 3 / 2], atol=1e-10)
