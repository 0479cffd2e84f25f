"""DASHA and DASHA-PP: against a plain program, within their bounds, and with batches."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_compressed import EvenPlaces, Known, even_places, weighted
from tests.algorithms.test_references import cohorts
from tests.helpers.examples import logistic, small
from tests.helpers.gradients import client_gradient
from tests.helpers.theorems import Theorem
from turnout.theory.compression import dasha_step
from turnout.theory.designs import inclusion

ROUNDS, LR = 50, 0.02
UNEQUAL = t.Independent(probability=[0.4, 0.9, 0.5, 0.7, 0.6, 0.8])


@pytest.mark.tiers(quick=[], longer=["full"])
@pytest.mark.parametrize("sampler", [UNEQUAL, t.Nice(4), t.Full()], ids=["unequal", "nice", "full"])
def test_a_run_is_its_numpy_program(sampler):
    """With omega = 1; the program has both points, also where all take part."""
    problem = small()
    chances, shares = inclusion(sampler, problem.population), np.asarray(problem.population.shares)
    a, b = chances.min() / 3, chances.min() / (2 - chances.min())
    x, g = np.zeros(3), np.zeros(3)
    h, sent = np.zeros((6, 3)), np.zeros((6, 3))
    for cohort in cohorts(sampler, problem, 2, ROUNDS):
        y = x - LR * g
        for i, *_ in cohort:
            new, old = client_gradient(problem, i, y), client_gradient(problem, i, x)
            k = new - old - b * (h[i] - old)
            m = even_places((k - a * (sent[i] - h[i])) / chances[i])
            h[i], sent[i], g = h[i] + k / chances[i], sent[i] + m, g + shares[i] * m
        x = y
    trace = t.run(t.Dasha(sampler, EvenPlaces(), LR), problem, rounds=ROUNDS, seed=2)
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


CASES = {"full": (t.Full(), t.codecs.RandK(count=2), 2.0), "participation": (t.Nice(5), t.codecs.RandK(count=3), 1.0)}
"""Sampler, codec and omega."""


def dasha_theorem(name, problem) -> Theorem:
    (sampler, codec, omega), known = CASES[name], Known(problem)
    lr, weight = dasha_step(problem, sampler, codec), known.shares.max()
    squares, mean = known.shares @ np.sum(known.start**2, axis=1), known.shares @ known.start
    if name == "full":
        # After the first round h_i = grad f_i(x_0), of which C is known.
        a, v, begins = 1 / (2 * omega + 1), weight * omega, 1
        first = v / a * squares + 4 * v * omega * squares
        inverse = np.sqrt(v * (24 * omega + 4))
    else:
        p, begins = 1 / 2, 0
        a, b = p / (2 * omega + 1), p / (2 - p)
        memory = 48 * b * weight * omega / (p * a) + 8 * weight / p
        first = 2 / b * mean @ mean + memory * squares
        total = 24 * weight * omega / (p * a) + 4 * weight / (b * p) + memory * 2 * (1 - p) / p
        inverse = np.sqrt(2 * total)
    theirs = 1 / (known.shares @ known.smoothness + np.sqrt(known.shares @ known.smoothness**2) * inverse)
    assert lr == pytest.approx(min(theirs, a / (2 * known.mu)))
    return Theorem(problem, t.Dasha(sampler, codec), "gap", known.gap + lr * first, 1 - lr * known.mu, begins)


@pytest.mark.tiers(longer=["full"], slow=["participation"])
@pytest.mark.parametrize("name", CASES)
def test_the_gap_falls_at_the_theorems_rate(name):
    dasha_theorem(name, weighted()).check(rounds=400, seeds=8)


@pytest.mark.longer
def test_with_full_participation_only_the_new_point_is_sent():
    totals = t.run(t.Dasha(t.Full(), t.codecs.Identity(), LR), small(), rounds=3, engine="nodes").ledger.totals()
    assert totals["vectors_down"] == totals["queries_total"] == totals["contacts"] == 3 * 6


@pytest.mark.slow
def test_momentum_takes_away_most_of_the_variance_of_batches():
    """DASHA-MVR beside the same with b = 1, where h_i is the gradient of a batch: mean squared gradients of the last half."""
    left = {}
    for momentum in (0.05, 1.0):
        algorithm = t.Dasha(t.Nice(6), t.codecs.RandK(fraction=0.5), lr=0.1, batch=2, momentum=momentum)
        trace = t.run(algorithm, logistic(), rounds=1500, metrics=("gradient",))
        left[momentum] = np.mean(trace.columns["gradient"][-750:] ** 2)
    assert left[0.05] < left[1.0] / 4


MISTAKES = {
    "batch": (lambda: t.Dasha(t.Full(), t.codecs.Identity(), batch=2), "with a batch or a momentum: give lr"),
    "biased": (lambda: t.Dasha(t.Full(), t.codecs.TopK(count=1)), "TopK is biased"),
    "cohorts": (lambda: t.Dasha(t.Stratified([0, 0, 0, 1, 1, 1]), t.codecs.Identity()), "cohorts of Stratified: give lr"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_sentence(name):
    make, sentence = MISTAKES[name]
    with pytest.raises(t.UserError, match=sentence):
        t.run(make(), small(), rounds=1)
