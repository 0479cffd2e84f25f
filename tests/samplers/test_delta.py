"""DELTA's probabilities are a NumPy program of the clients' gradients, and averages stay unbiased."""

import numpy as np
import pytest

import turnout as t
from tests.helpers.federations import ENGINES, counted, four, play, with_rows
from tests.helpers.gradients import client_gradient
from turnout.runs.session import Session
from turnout.runs.setup import bind


def roots(problem, x) -> np.ndarray:
    """|grad f_i(x) - grad f(x)|."""
    gradients = np.stack([client_gradient(problem, i, x) for i in range(4)])
    return np.linalg.norm(gradients - np.asarray(problem.population.shares) @ gradients, axis=1)


@pytest.mark.tiers(quick=[], slow=["compiled"])
@ENGINES
def test_scores_are_those_of_the_gradients_at_the_parameters(engine):
    """All clients are asked before rounds 1 and 3, and charged."""
    problem = four()
    sampler = t.Independent(t.Delta(diversity=4.0, every=2), size=2.0)
    sessions = [play(t.MbGd(sampler, lr=0.05), problem, rounds, engine=engine) for rounds in (2, 3)]
    state, shares = sessions[1].progress.samplers[0], np.asarray(problem.population.shares)
    np.testing.assert_allclose(state, shares * 2 * roots(problem, sessions[0].trace.x), rtol=1e-9)
    assert sum(row["contacts"] == 8 and row["arrivals"] == 8 for row in counted(sessions[1]).values()) == 1
    bound = bind(sampler, problem)
    p = np.asarray(bound.expected_draws(state, problem.population))
    mixed = 0.95 * state + 0.05 * np.mean(state)
    assert p.sum() == pytest.approx(2) and np.all(p >= 0.05 * 2 / 4 - 1e-12)
    free = p < 1 - 1e-12
    np.testing.assert_allclose(p[free] / p[free].sum(), (mixed / mixed[free].sum())[free], rtol=1e-9)


@pytest.mark.slow
def test_noise_is_that_of_batches():
    """With alpha_1 = 0 the mean of a_i^2 over seeds is lambda_i^2 times the variance of a row's gradient, over the batch size."""
    problem, x = with_rows(), np.zeros(5)
    algorithm = t.MbGd(t.Independent(t.Delta(diversity=0.0, noise=1.0, batch=2), size=2.0), lr=0.1)
    squares = []
    for seed in range(60):
        session = Session(algorithm, problem, seeds=t.Seeds.of(seed), rounds=1).run()
        squares.append(np.asarray(session.progress.samplers[0]) ** 2)
    features, labels = problem.rows
    expected, shares = [], np.asarray(problem.population.shares)
    for i in range(4):
        own = slice(problem.offsets[i], problem.offsets[i + 1])
        rows = -labels[own, None] * features[own] / 2 + problem.mu * x
        expected.append(shares[i] ** 2 * np.sum((rows - rows.mean(0)) ** 2) / len(rows) / 2)
    error = np.std(squares, axis=0) / np.sqrt(60)
    assert np.all(np.abs(np.mean(squares, axis=0) - expected) < 4 * error)


@pytest.mark.longer
def test_clients_that_are_alike_are_drawn_by_their_weights():
    matrices = np.stack([np.eye(3)] * 4)
    problem = t.Quadratic.of(matrices, np.ones((4, 3)), weights=np.array([0.4, 0.3, 0.2, 0.1]))
    session = play(t.MbGd(t.Independent(t.Delta(), size=2.0), lr=0.05), problem, 1)
    scores = np.asarray(session.progress.samplers[0])
    np.testing.assert_allclose(scores / scores.sum(), [0.4, 0.3, 0.2, 0.1], rtol=1e-12)


@pytest.mark.longer
def test_lost_answers_count_as_the_mean_of_the_others():
    """Whatever is lost, scores are positive and finite, and proportional to the weights where all are lost."""
    faults = t.Faults(loss=0.5, missing="skip")
    session = play(t.MbGd(t.Independent(t.Delta(), size=2.0), lr=0.01), four(), 6, faults=faults)
    state = np.asarray(session.progress.samplers[0])
    assert np.all(np.isfinite(state)) and np.all(state > 0)


@pytest.mark.tiers(quick=[], slow=["sampler1"])
@pytest.mark.parametrize(
    "sampler",
    [
        t.Available(t.Independent(t.Delta(every=2), size=2.0), probability=0.7),
        t.AdaptiveSize(t.Systematic(t.Delta(every=2), size=3)),
        t.WithReplacement(t.Delta(every=2), size=2),
    ],
)
def test_it_goes_with_every_design(sampler):
    sessions = [play(t.MbGd(sampler, lr=0.02), four(), 4, engine=engine) for engine in ("compiled", "nodes")]
    np.testing.assert_allclose(*(session.trace.x for session in sessions), atol=1e-13)
    assert counted(sessions[0]) == counted(sessions[1])
