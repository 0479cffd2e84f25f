"""Scafflix against a plain program of its paper, Scaffnew, and the rate of its theorem."""

from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.helpers.examples import small
from tests.helpers.gradients import client_gradient
from turnout.client_solvers import LocalSolver, Solution
from turnout.core.seeds import Seeds
from turnout.runs.session import Session
from turnout.runs.sweep import cells_of

pytestmark = pytest.mark.filterwarnings("ignore:a client takes part")

N, SEED = 6, 1


@t.record
class Exact(LocalSolver):
    """One Newton step, which is exact on quadratics; it says that it made two queries."""

    def minimise(self, client, tilt, start, delta=None, convexity=None):
        return Solution(start - jnp.linalg.solve(client.hessian(start), client.grad(start)), 2, 0)


@dataclass(frozen=True)
class Plain:
    """The mixtures of six quadratics in NumPy; `lr` are step sizes times L_i."""

    problem: t.Problem
    lr: np.ndarray
    p: float
    alpha = np.array([0.2, 0.4, 0.6, 0.8, 1.0, 0.5])

    @cached_property
    def steps(self) -> np.ndarray:
        return self.lr / np.linalg.eigvalsh(self.problem.rows[0])[:, -1]

    @property
    def algorithm(self) -> t.Scafflix:
        return t.Scafflix(t.Nice(2), Exact(), lr=[*self.steps], alpha=[*self.alpha], probability=self.p)

    @property
    def shares(self) -> np.ndarray:
        return np.asarray(self.problem.population.shares)

    @property
    def rate(self) -> np.ndarray:
        return (self.p * self.alpha / self.steps)[:, None]

    def mixed(self, points) -> np.ndarray:
        """T_i of each x_i, or of one x [n, d]."""
        matrices, vectors = self.problem.rows
        own = np.linalg.solve(matrices, vectors[:, :, None])[:, :, 0]
        return self.alpha[:, None] * points + (1 - self.alpha)[:, None] * own

    def slopes(self, points) -> np.ndarray:
        """grad f_i(T_i(x_i))."""
        return np.array([client_gradient(self.problem, i, model) for i, model in enumerate(self.mixed(points))])

    @cached_property
    def optimum(self) -> np.ndarray:
        """sum_i lambda_i alpha_i grad f_i(T_i(x)) = 0, which is linear for quadratics."""
        left = np.tensordot(self.shares * self.alpha**2, self.problem.rows[0], 1)
        return np.linalg.solve(left, -(self.shares * self.alpha) @ self.slopes(np.zeros(3)))

    def variates(self, session) -> np.ndarray:
        """The h_i after the step that the next message completes [..., n, d]."""
        clients, owed = session.progress.clients, session.progress.server.owed
        x, h, owed = (np.asarray(part) for part in (clients.x, clients.h, owed))
        return h - self.rate * (x - owed)

    def psi(self, x, h) -> np.ndarray:
        near = np.sum((self.mixed(x) - self.mixed(self.optimum)) ** 2, axis=-1) / self.steps
        right = np.sum((h - self.slopes(self.optimum)) ** 2, axis=-1) * self.steps / self.p**2
        return np.sum(self.shares * (near + right), axis=-1)


STEEP = Plain(small(), np.array([1.0, 0.5, 0.8, 1.0, 0.7, 0.9]), 0.4)
ROUND = Plain(
    t.Quadratic.of(np.arange(1.0, 7)[:, None, None] * np.eye(3), small().rows[1], weights=small().population.weights),
    np.ones(N), 0.1,
)  # fmt: skip
"""Steps of length 1 / L_i that end at the minimum, so that only the h_i are left, by which the rate is p^2."""


@pytest.mark.tiers(quick=[], longer=["compiled"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_a_run_is_its_numpy_program(engine):
    """One coin a step; all h_i move in each step, by 0 where nobody communicates."""
    f, total = STEEP, 0
    trace = t.run(f.algorithm, f.problem, rounds=5, seed=SEED, engine=engine)
    points, h, weights = np.zeros((N, 3)), np.zeros((N, 3)), f.shares * f.alpha**2 / f.steps
    for number in range(1, 6):
        key = jax.random.fold_in(Seeds.of(SEED).exchange(number, 0), N)
        steps = int(jax.random.geometric(key, f.p, dtype="int32"))
        for step in range(1, steps + 1):
            ahead = points - (f.steps / f.alpha)[:, None] * (f.slopes(points) - h)
            points = np.tile(weights @ ahead / weights.sum(), (N, 1)) if step == steps else ahead
            h = h + f.rate * (points - ahead)
        total += steps
    np.testing.assert_allclose(trace.x, points[0], atol=1e-12)
    np.testing.assert_allclose([trace.model(i) for i in range(N)], f.mixed(points), atol=1e-12)
    assert trace.ledger.totals()["queries_slowest"] == total + 2


@pytest.mark.slow
def test_whole_shares_and_one_step_size_are_scaffnew():
    options = {"rounds": 6, "seed": SEED, "faults": t.Faults(0.3, "skip")}
    one = t.run(replace(STEEP.algorithm, lr=0.05, alpha=1.0), small(), **options)
    other = t.run(t.Scaffnew(t.Nice(2), lr=0.05, probability=STEEP.p), small(), **options)
    np.testing.assert_allclose(one.x, other.x, rtol=1e-12)
    np.testing.assert_allclose([one.model(i) for i in range(N)], np.tile(other.x, (N, 1)), rtol=1e-12)
    counts, same = (trace.ledger.totals() for trace in (one, other))
    assert {event for event in counts if counts[event] != same[event]} == {"queries_total", "queries_slowest"}


@pytest.mark.longer
def test_it_ends_at_the_minimum_of_its_mixtures_though_replies_are_lost():
    """sum_i lambda_i alpha_i h_i stays 0, and h_i goes to grad f_i(T_i(x*))."""
    f = STEEP
    session = Session(f.algorithm, f.problem, seeds=Seeds.of(SEED), rounds=1000, every=50, faults=t.Faults(0.3, "skip"))
    for _ in session.play():
        np.testing.assert_allclose((f.shares * f.alpha) @ f.variates(session), 0, atol=1e-11)
    np.testing.assert_allclose(session.trace.x, f.optimum, atol=1e-9)
    np.testing.assert_allclose(f.variates(session), f.slopes(f.optimum), atol=1e-8)
    assert np.linalg.norm(f.shares @ f.variates(session)) > 0.1


@pytest.mark.longer
def test_psi_falls_in_each_step_where_all_communicate():
    f, psi = replace(STEEP, p=1.0), []
    q = 1 - np.min(f.steps * np.linalg.eigvalsh(f.problem.rows[0])[:, 0])
    for rounds in range(6):
        session = Session(f.algorithm, f.problem, seeds=Seeds.of(SEED), rounds=rounds, every=6).run()
        psi.append(f.psi(np.asarray(session.progress.server.x), f.variates(session)))
    assert np.all(np.array(psi[1:]) / psi[:-1] <= q)


@pytest.mark.slow
def test_psi_falls_in_expectation():
    ratios, steps = check_psi(ROUND, seeds=200, rounds=3)
    assert np.mean(ratios) > 0.5 and np.std(ratios) < 1 and 3 < steps.min() < steps.max()


def check_psi(f, seeds, rounds) -> tuple[np.ndarray, np.ndarray]:
    """Return rate^-t Psi_t / Psi_0 [seeds], whose mean is at most 1, and the local steps t.

    It is a supermartingale in t, so that this holds at the random t of a communication too.
    """
    options = {"seeds": Seeds.of(0), "rounds": rounds, "every": rounds, "cells": cells_of({}, range(seeds))}
    session = Session(f.algorithm, f.problem, **options).run()
    steps = np.array([trace.ledger.totals()["queries_slowest"] - 2 for trace in session.traces])
    psi = f.psi(np.asarray(session.progress.server.x)[:, None], f.variates(session)) / f.psi(np.zeros(3), np.zeros((N, 3)))
    rate = 1 - min(np.min(f.steps * np.linalg.eigvalsh(f.problem.rows[0])[:, 0]), f.p**2)
    ratios = rate ** -steps.astype(float) * psi
    assert np.mean(ratios) <= 1 + 5 * np.std(ratios) / np.sqrt(seeds) and np.mean(psi) < 1
    return ratios, steps
