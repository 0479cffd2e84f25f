"""What draws are judged by."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

import turnout as t
from tests.helpers.federations import SHARES, Q, adaptive, chance, counted, four, play, subsets
from tests.helpers.gradients import client_gradient
from turnout.samplers.base import samplers_in
from turnout.samplers.diagnostics import NAMES as SAMPLING


def least(squares, size, replacement) -> float:
    """min sum_i squares_i / p_i over sum p = K, and p <= 1 without replacement, by a general solver."""
    some = squares > 0
    squares = squares[some]
    bound = None if replacement else 1
    if not replacement and squares.size <= size:
        return squares.sum()
    scale = squares.sum()
    result = minimize(
        lambda p: np.sum(squares / p) / scale,
        np.full(squares.size, min(1.0, size / squares.size)),
        jac=lambda p: -squares / p**2 / scale,
        bounds=[(1e-6, bound)] * squares.size,
        constraints={"type": "eq", "fun": lambda p: p.sum() - size, "jac": np.ones_like},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return result.fun * scale


JUDGED = {
    "independent": lambda: t.MbGd(adaptive(), lr=0.05),
    "replacement": lambda: t.MbGd(t.WithReplacement(t.KVib(rounds=50), size=2), lr=0.05),
    "available": lambda: t.MbGd(t.Available(adaptive(), probability=Q, memory=0.2), lr=0.05),
    "first of two exchanges": lambda: t.Sppm(
        adaptive(), t.solvers.GradientDescent(smoothness=20.0, convexity=0.0), gamma=0.3, inner=2
    ),
}


@pytest.mark.tiers(quick=[], longer=["replacement"])
@pytest.mark.parametrize("name", JUDGED)
def test_sampling_metrics_are_their_definitions(name):
    """The variance is that of all that can be drawn, written out; the regrets are against a general solver's optimum."""
    rounds, problem = 4, four()
    runs = [play(JUDGED[name](), problem, r, metrics=("value", *SAMPLING)) for r in range(rounds + 1)]
    replacement, total = name == "replacement", np.zeros(4)
    loss = best = 0.0
    for before, after in itertools.pairwise(runs):
        algorithm = after.engine.algorithm
        sampler, state = algorithm.sampler, before.progress.samplers[0]
        if name == "available":
            state = after.progress.samplers[0][0], state[1]
        x, p = before.trace.x, np.asarray(sampler.expected_draws(state, problem.population))
        on, q = (np.asarray(state[0]), Q) if name == "available" else (np.ones(4, bool), np.ones(4))
        vectors = np.stack([SHARES[i] / q[i] * client_gradient(problem, i, x) for i in range(4)]) * on[:, None]
        inverse = np.where(p > 0, 1 / np.where(p > 0, p, 1), 0)
        if replacement:
            outcomes = [(p[i] * p[k] / 4, np.eye(4)[i] + np.eye(4)[k]) for i in range(4) for k in range(4)]
        else:
            outcomes = [(chance(drawn, p), drawn) for drawn in subsets()]
        variance = sum(w * np.sum(((drawn * inverse) @ vectors - vectors.sum(0)) ** 2) for w, drawn in outcomes)
        squares = np.sum(vectors**2, axis=1)
        total += squares
        loss += squares @ inverse
        best += least(squares, p.sum(), replacement)
        row = {metric: after.trace.columns[metric][-1] for metric in SAMPLING}
        assert row["variance"] == pytest.approx(variance, rel=1e-9)
        assert row["regret"] == pytest.approx(loss - best, rel=1e-5, abs=1e-6 * loss)
        assert row["static_regret"] == pytest.approx(loss - least(total, 2.0, replacement), rel=1e-5, abs=1e-6 * loss)


@pytest.mark.slow
def test_judging_changes_neither_the_run_nor_the_ledger():
    algorithm = t.MbLocalGd(t.Available(adaptive(), probability=0.7), lr=0.05, steps=2)
    plain = play(algorithm, four(), 5, metrics=("value",))
    judged, nodes = (play(algorithm, four(), 5, engine=e, metrics=("value", *SAMPLING)) for e in ("compiled", "nodes"))
    for other in (judged, nodes):
        np.testing.assert_allclose(plain.trace.x, other.trace.x, rtol=1e-12)
        assert counted(plain) == counted(other)
    for metric in SAMPLING:
        np.testing.assert_allclose(judged.trace.columns[metric], nodes.trace.columns[metric], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_rows_report_the_mean_variance_since_the_row_before():
    each, pairs = (play(JUDGED["independent"](), four(), 6, metrics=("variance",), every=every).trace for every in (1, 2))
    means = each.columns["variance"][1:].reshape(3, 2).mean(1)
    np.testing.assert_allclose(pairs.columns["variance"][1:], means, rtol=1e-12)


@pytest.mark.slow
def test_a_sweeps_cell_is_judged_like_the_single_run():
    algorithm, metrics = JUDGED["independent"](), ("value", *SAMPLING)
    swept = t.sweep(algorithm, four(), {"sampler.size": [1.5, 2.0]}, seeds=[3], rounds=4, metrics=metrics)
    single = play(algorithm, four(), 4, metrics=metrics).trace
    for metric in metrics:
        np.testing.assert_allclose(swept.traces[1].columns[metric], single.columns[metric], rtol=1e-9, atol=1e-12)


def test_every_sampler_that_looks_ahead_says_so_through_availability():
    for inner in (t.PowerOfChoice(2, 3), t.Afl(2), t.Independent(size=2.0, probability=t.Optimal(free=True)), adaptive()):
        outer = t.Available(inner, probability=0.5)
        for name in ("consults_before_draw", "is_charged", "learns_from_feedback", "feedback_kind", "replacement"):
            assert getattr(outer, name) == getattr(inner, name)
        assert samplers_in(outer) == [outer, inner]
