"""ProxSkip-VR: against a plain program with its batches and coins, within its bound, and beside plain batches."""

import jax
import numpy as np
import pytest

import turnout as t
from tests.helpers.theorems import LocalTheorem
from turnout.core.seeds import Seeds
from turnout.data.dataset import Dataset
from turnout.data.splits import Split

N, ROWS, DIMENSION, MU = 3, 6, 2, 0.1
LR, P, Q = 0.1, 0.4, 0.3


def ridge(shares=None) -> t.Problem:
    """Three clients with six rows each, whose losses are (a.x - b)^2 / 2 + MU |x|^2 / 2."""
    generator = np.random.default_rng(0)
    dataset = Dataset("made", generator.normal(size=(N * ROWS, DIMENSION)), generator.normal(size=N * ROWS))
    return t.Ridge.of(dataset, Split(np.arange(N * ROWS), np.arange(N + 1) * ROWS), mu=MU, weights=shares)


def slope(problem, i, x, rows=slice(None)) -> np.ndarray:
    own = slice(i * ROWS, (i + 1) * ROWS)
    features, targets = (np.asarray(part[own])[rows] for part in problem.rows)
    return features.T @ (features @ x - targets) / len(targets) + problem.mu * x


def steps_of(seed, number):
    return jax.random.geometric(jax.random.fold_in(Seeds.of(seed).exchange(number, 0), N), P)


@pytest.mark.slow
def test_a_run_is_its_numpy_program_and_its_queries_are_counted():
    shares, rounds, batch, queries = np.array([0.5, 0.2, 0.3]), 50, 2, 0
    problem = ridge(shares)
    x, h, anchors, due = np.zeros(DIMENSION), np.zeros((N, DIMENSION)), np.zeros((N, DIMENSION)), np.ones(N, int)
    for number in range(1, rounds + 1):
        z = np.tile(x, (N, 1))
        for k in range(steps_of(1, number)):
            for i in range(N):
                key = jax.random.fold_in(jax.random.fold_in(Seeds.of(1).exchange(number, 0), i), k)
                rows_key, coin_key = jax.random.split(key)
                rows = np.asarray(jax.random.randint(rows_key, (batch,), 0, ROWS, "int32"))
                g = slope(problem, i, z[i], rows) - slope(problem, i, anchors[i], rows) + slope(problem, i, anchors[i])
                queries += 2 + due[i]
                due[i] = bool(jax.random.bernoulli(coin_key, Q))
                anchors[i] = z[i] if due[i] else anchors[i]
                z[i] = z[i] - LR * (g - h[i])
        x = shares @ z
        h = h + P / LR * (x - z)
    trace = t.run(t.ProxSkipVr(t.Full(), LR, P, batch=batch, refresh=Q), problem, rounds=rounds, seed=1)
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)
    assert trace.ledger.totals()["queries_total"] == queries


def vr_theorem(problem) -> LocalTheorem:
    """Of three clients with six rows each, and batches of one."""
    features, targets = (np.asarray(part) for part in problem.rows)
    mu = problem.mu
    lr = float(1 / (6 * (np.max(np.sum(features**2, axis=1)) + mu)))
    best = np.linalg.solve(features.T @ features / (N * ROWS) + mu * np.eye(DIMENSION), features.T @ targets / (N * ROWS))
    starts = features * -targets[:, None] - (features * (features @ best - targets)[:, None] + mu * best)
    ideal = np.array([slope(problem, i, best) for i in range(N)])
    first = best @ best + (lr / P) ** 2 * np.mean(np.sum(ideal**2, axis=1)) + 4 * lr**2 / Q * np.sum(starts**2) / (N * ROWS)
    rate = max(1 - lr * mu, 1 - P**2, 1 - Q / 2)
    return LocalTheorem(problem, t.ProxSkipVr(t.Full(), lr, P, batch=1, refresh=Q), first, rate)


@pytest.mark.slow
def test_the_distance_falls_at_the_rate_of_the_docstring():
    vr_theorem(ridge()).check(rounds=150, seeds=60, every=15, fall=100)


@pytest.mark.longer
def test_it_reaches_the_optimum_with_batches():
    """f has the gradient 0 to rounding, where batches without anchors stay in a neighbourhood of x*."""
    problem = ridge()
    trace = t.run(t.ProxSkipVr(t.Full(), 0.05, P, batch=1, refresh=Q), problem, rounds=3000, every=3000)
    slopes = np.mean([slope(problem, i, trace.x) for i in range(N)], axis=0)
    assert np.linalg.norm(slopes) < 1e-9
