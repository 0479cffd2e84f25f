"""Quadratic federations on which FedDCD and AccFedDCD are played, and what must hold of both."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import turnout as t
from turnout.client_solvers import LocalSolver, Solution
from turnout.client_solvers.base import of_client
from turnout.core.seeds import Seeds
from turnout.problems.optimum import Optimum
from turnout.runs.session import Session
from turnout.runs.sweep import cells_of

CLIENTS, SIZE, ALPHA, BETA = 8, 3, 1.0, 10.0
EQUAL = np.full(CLIENTS, 1 / CLIENTS)
SHARES = np.array([3.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 2.0]) / 12
FLAT = t.Quadratic.of(np.stack([np.eye(2), np.diag([1.0, 0.0]), np.eye(2)]), np.ones((3, 2)))
"""Of whose clients the second is not strongly convex."""


@t.record
class Exact(LocalSolver):
    """One Newton step, which is exact on quadratics."""

    def minimise(self, client, tilt, start, delta=None, convexity=None):
        slope = client.grad(start) - tilt.linear
        return Solution(start - jnp.linalg.solve(client.hessian(start), slope), 2, 0)


def quadratic(weights=EQUAL) -> t.Problem:
    made = t.Quadratic.random(CLIENTS, 3, ALPHA, BETA, seed=0)
    return t.Quadratic.of(*made.rows, weights=weights)


def play(algorithm, problem, rounds, every=1, loss=0.0, missing="skip", **options) -> Session:
    """Play with settings that share one compiled program where they can."""
    faults = t.Faults(loss, missing)
    session = Session(algorithm, problem, seeds=Seeds.of(0), rounds=rounds, every=every, faults=faults, **options)
    return session.run()


@cache
def cohorts(rounds, draw):
    """The clients [rounds, tau] of the `draw`-th draw of each round."""
    sampler, population = t.Nice(SIZE), t.Population(CLIENTS)
    numbers = jnp.arange(1, rounds + 1)
    return np.asarray(jax.jit(jax.vmap(lambda n: sampler.draw(None, Seeds.of(0).draw(n, draw), population).ids))(numbers))


def solution(problem, i, y):
    """argmin f_i - <., y>."""
    return np.linalg.solve(problem.rows[0][i], problem.rows[1][i] + y)


def optimum(problem, shares):
    return np.linalg.solve(*(np.tensordot(shares, part, 1) for part in problem.rows))


def differences(w, members, alpha, shares):
    """alpha_i (w_i - mean) of the members, 0 of the others, and the mean."""
    weight = np.where(np.isin(np.arange(CLIENTS), members), shares * alpha, 0)
    mean = weight @ w / weight.sum()
    return np.where(weight[:, None] > 0, alpha[:, None] * (w - mean), 0), mean


def check_deliveries(make, means, shares):
    """Both deliveries give the `means` round by round; the ledger counts what each way sends, in cohorts of SIZE clients."""
    problem, rounds = quadratic(shares), len(means)
    hessian, linear = (np.tensordot(shares, part, 1) for part in problem.rows)
    values = np.einsum("ti,ij,tj->t", means, hessian, means) / 2 - means @ linear
    for delivery in ("lazy", "eager"):
        algorithm = make(delivery)
        accelerated = isinstance(algorithm, t.AccFedDcd)
        trace = play(algorithm, problem, rounds).trace
        np.testing.assert_allclose(trace.columns["value"][1:], values, rtol=0, atol=1e-12)
        np.testing.assert_allclose(trace.x, means[-1], rtol=0, atol=1e-12)
        totals, many = trace.ledger.totals(), rounds * (2 if accelerated else 1)
        assert totals["draws_random"] == totals["cohorts"] == many
        assert totals["vectors_down"] == totals["vectors_up"] == many * SIZE
        assert totals["exchanges"] == many * (1 if delivery == "lazy" else 2)
        assert totals["reasks"] == totals["exchanges"] - many
        assert totals["bytes_down"] == many * SIZE * (24 + (4 if accelerated else 0))
        assert totals["bytes_up"] == many * SIZE * 24


def check_theorem(algorithm, rate):
    """The mean of 60 seeds against rho^t |y*|^2 / (n alpha^2), y*_i = grad f_i(x*); the solutions of round 1 are at y = 0."""
    problem, x = quadratic(), optimum(quadratic(), EQUAL)
    hessian, linear = (np.tensordot(EQUAL, part, 1) for part in problem.rows)
    slopes, best = problem.rows[0] @ x - problem.rows[1], Optimum(x, x @ hessian @ x / 2 - linear @ x)
    cells = cells_of({}, range(60))
    traces = play(algorithm, problem, 120, every=8, cells=cells, metrics=("distance",), optimum=best).traces
    errors = np.mean([trace.columns["distance"][1:] for trace in traces], axis=0)
    rounds = traces[0].columns["round"][1:]
    assert np.all(errors <= rate ** (rounds - 1) * np.sum(slopes**2) / CLIENTS / ALPHA**2)
    assert np.std([trace.columns["distance"][1] for trace in traces]) > 0


def check_constraint(algorithm, missing, virtual):
    """sum_i lambda_i y_i = 0 (and z) after 1000 rounds with a fifth of the replies lost, and the optimum is found."""
    problem = quadratic(SHARES)
    session = play(algorithm, problem, 1000, every=500, loss=0.2, missing=missing)
    duals = virtual(session)
    assert np.max(np.abs(np.tensordot(SHARES, duals, 1))) < 1e-10 < 1 < np.max(np.abs(duals))
    np.testing.assert_allclose(session.trace.x, optimum(problem, SHARES), rtol=0, atol=1e-5)
    if algorithm.delivery == "eager":
        rows = session.trace.ledger.rows()
        solved, delivered = (sum(row["arrivals"] for row in rows if row["vectors_" + way]) for way in ("up", "down"))
        assert solved == delivered + np.sum(session.progress.server.due)
        assert all(row["aggregated"] == row["arrivals"] for row in rows)


def check_nodes(algorithm, virtual):
    """Nodes that lose replies give the compiled run."""
    one, other = (play(algorithm, quadratic(SHARES), 6, loss=0.3, engine=engine) for engine in ("compiled", "nodes"))
    np.testing.assert_allclose(one.trace.x, other.trace.x, atol=1e-13)
    np.testing.assert_allclose(virtual(one), virtual(other), atol=1e-12)
    np.testing.assert_array_equal(one.trace.columns["counts"], other.trace.columns["counts"])


def owed(session):
    """The clients' states, and lr alpha_i (w_i - mean) [n, d] of those who are still owed a mean; 0 of the others."""
    algorithm, server, clients = session.engine.algorithm, session.progress.server, session.progress.clients
    clients = jax.tree.map(np.asarray, clients)
    due = np.ones(CLIENTS, bool) if server.due is None else np.asarray(server.due)
    alpha = np.array([of_client(algorithm.convexity, i) for i in jnp.arange(CLIENTS)])[:, None]
    return clients, np.where(due[:, None], algorithm.lr * alpha * (clients.w - np.asarray(server.owed)), 0)
