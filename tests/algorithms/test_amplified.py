"""Amplified FedAvg and Amplified SCAFFOLD: plain programs of their papers, for clients that take turns."""

from functools import cache

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_scaffold import SHARES, STEPS, optimum, quadratic
from tests.helpers.gradients import client_gradient

PERIOD, ROUNDS, LR, GAMMA = 4, 50, 0.02, 1.7
TURNS = np.array([[0, 0, 2], [1, 0, 2], [2, 0, 2], [3, 2, 4], [4, 2, 4], [5, 2, 4]])
"""Clients 0 to 2 in two rounds, and 3 to 5 in the next two."""
MAKERS = {
    "fedavg": lambda s, **options: t.AmplifiedFedAvg(s, lr=LR, steps=STEPS, period=PERIOD, **options),
    "scaffold": lambda s, **options: t.AmplifiedScaffold(s, lr=LR, steps=STEPS, period=PERIOD, **options),
}


def turns() -> t.Sampler:
    """Everyone whose turn it is."""
    return t.Available(t.Nice(3), trace=TURNS, period=PERIOD)


def plain(kind, rounds, lr=LR, gamma=GAMMA, shares=SHARES, steps=STEPS) -> np.ndarray:
    """The paper's program, with all sums over a period kept at hand."""
    problem, x, c = quadratic(), np.zeros(3), np.zeros((6, 3))
    anchor, gradients = x, [[] for _ in range(6)]
    for number in range(rounds):
        cohort = range(3) if number % PERIOD < 2 else range(3, 6)
        moved = np.zeros(3)
        for i in cohort:
            y = x
            for _ in range(steps[i]):
                gradient = client_gradient(problem, i, y)
                gradients[i].append(gradient)
                y = y - lr * (gradient + (shares @ c - c[i] if kind == "scaffold" else 0))
            moved = moved + shares[i] / shares[cohort].sum() * (y - x)
        x = x + moved
        if (number + 1) % PERIOD == 0:
            x = anchor = anchor + gamma * (x - anchor)
            c = np.array([np.mean(own, axis=0) if own else old for own, old in zip(gradients, c, strict=True)])
            gradients = [[] for _ in range(6)]
    return x


@cache
def run(kind, rounds=ROUNDS, gamma=GAMMA):
    return t.run(MAKERS[kind](turns(), amplification=gamma), quadratic(), rounds=rounds, seed=1, every=rounds)


@pytest.mark.longer
@pytest.mark.parametrize("kind", MAKERS)
def test_a_run_is_its_numpy_program(kind):
    np.testing.assert_allclose(run(kind).x, plain(kind, ROUNDS), rtol=0, atol=1e-10)


@pytest.mark.slow
def test_clients_that_miss_periods_keep_their_variates():
    """Cohorts of one leave most clients out of a period, and c is sum_i lambda_i c_i all the same: x* stays where it is."""
    sampler = t.Available(t.Nice(1), trace=TURNS, period=PERIOD)
    trace = t.run(
        t.AmplifiedScaffold(sampler, lr=0.01, period=PERIOD, amplification=1.2, steps=2), quadratic(), rounds=12000, every=12000
    )
    np.testing.assert_allclose(trace.x, optimum(*quadratic().rows), rtol=0, atol=1e-9)


def test_variates_leave_the_optimum_where_it_is_while_clients_take_turns():
    best = optimum(*quadratic().rows)
    scaffold, average = (run(kind, 2000).x for kind in ("scaffold", "fedavg"))
    np.testing.assert_allclose(scaffold, best, rtol=0, atol=1e-10)
    assert np.linalg.norm(average - best) > 0.01 * np.linalg.norm(best)


def test_small_steps_that_are_amplified_stop_nearer_to_the_optimum():
    """Both move about as far in a period; where groups have the same weight, the distance is O(lr)."""
    equal, matrices, vectors = np.full(6, 1 / 6), *quadratic().rows
    best = np.linalg.solve(matrices.mean(0), vectors.mean(0))
    far, near = (np.linalg.norm(plain("fedavg", 1200, LR / factor, factor, equal, [2] * 6) - best) for factor in (1.0, 8.0))
    assert far / near == pytest.approx(8, rel=0.2)


@pytest.mark.parametrize("kind", MAKERS)
def test_the_ledger_is_a_hand_count(kind):
    totals = run(kind).ledger.totals()
    vectors = 1 if kind == "fedavg" else 2
    assert (totals["contacts"], totals["vectors_up"], totals["vectors_down"]) == (
        3 * ROUNDS,
        vectors * 3 * ROUNDS,
        vectors * 3 * ROUNDS,
    )
    assert totals["bytes_up"] == 8 * 3 * vectors * 3 * ROUNDS
