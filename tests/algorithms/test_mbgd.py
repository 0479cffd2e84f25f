"""Minibatch SGD: every cohort and every batch as often as it should be."""

import itertools

import numpy as np
import pytest
from scipy import stats

import turnout as t
from turnout.data.dataset import Dataset
from turnout.data.splits import Split

SIZES, LR = (2, 1, 3), 0.1


def ridge() -> t.Ridge:
    """Three clients with two, one and three rows, and unequal weights."""
    generator = np.random.default_rng(9)
    dataset = Dataset("made", generator.normal(size=(6, 2)), generator.normal(size=6))
    split = Split(np.arange(6), np.concatenate([[0], np.cumsum(SIZES)]))
    return t.Ridge.of(dataset, split, mu=0.0, weights=np.array([0.5, 0.2, 0.3]))


@pytest.mark.slow
def test_the_step_is_unbiased_over_cohorts_and_batches():
    """From x = 0 a cohort of two and a row of each make 11 possible steps. Their mean is the gradient step, and runs take each
    as often as its chance, 1/3 / (n_i n_j), demands."""
    problem = ridge()
    features, targets = problem.rows
    weights, rows = problem.population.weights, np.split(-features * targets[:, None], np.cumsum(SIZES)[:-1])
    steps, chances = [], []
    for i, j in itertools.combinations(range(3), 2):
        for a, b in itertools.product(rows[i], rows[j]):
            steps.append(-LR * 3 / 2 * (weights[i] * a + weights[j] * b))
            chances.append(1 / (3 * SIZES[i] * SIZES[j]))
    gradient = sum(weight * mine.mean(0) for weight, mine in zip(weights, rows, strict=True))
    np.testing.assert_allclose(np.array(chances) @ steps, -LR * gradient, atol=1e-15)

    runs = t.sweep(t.MbGd(t.Nice(2), lr=LR, batch=1), problem, {}, rounds=1, seeds=range(900), metrics=("value",))
    distances = np.linalg.norm(np.array([trace.x for trace in runs.traces])[:, None] - np.array(steps), axis=-1)
    np.testing.assert_allclose(distances.min(1), 0, atol=1e-14)
    seen = np.bincount(distances.argmin(1), minlength=len(steps))
    assert stats.chisquare(seen, 900 * np.array(chances)).pvalue > 1e-3


@pytest.mark.longer
def test_larger_batches_have_less_variance():
    """E |x+ - E x+|^2 = lr^2 sum_i lambda_i^2 V_i / b with all clients and b rows each, V_i the variance of a row's gradient."""
    problem = ridge()
    features, targets = problem.rows
    rows = np.split(-features * targets[:, None], np.cumsum(SIZES)[:-1])
    variances = np.array([((mine - mine.mean(0)) ** 2).sum(1).mean() for mine in rows])
    runs = t.sweep(t.MbGd(t.Full(), lr=LR, batch=5), problem, {}, rounds=1, seeds=range(900), metrics=("value",))
    mean = -LR * sum(weight * mine.mean(0) for weight, mine in zip(problem.population.weights, rows, strict=True))
    errors = ((np.array([trace.x for trace in runs.traces]) - mean) ** 2).sum(1)
    expected = LR**2 * problem.population.weights**2 @ variances / 5
    assert abs(errors.mean() - expected) < 4 * errors.std() / np.sqrt(len(errors))
