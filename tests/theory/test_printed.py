"""Formulas of the papers that do not hold as they are printed, each with the case that shows it and the form that does hold."""

import itertools

import jax
import numpy as np
import pytest

import turnout as t
from turnout.accounting.prices import Selection
from turnout.samplers.probabilities.waterfilling import capped
from turnout.theory.dissimilarity import Dissimilarity
from turnout.theory.selection import Case
from turnout.theory.selection_complexity import TABLE


def test_the_variance_of_coins_is_below_the_bound_of_fixed_cohorts_for_some_probabilities_only():
    """Equation (3) of K-Vib: sum (1 - p) v^2 / p <= (N - K) / (N - 1) sum v^2 / p."""

    def both(p, v):
        each, n, size = v**2 / p, len(p), p.sum()
        return np.sum((1 - p) * each), (n - size) / (n - 1) * each.sum()

    coins, fixed = both(np.array([0.25, 0.75, 1.0]), np.array([10.0, 1.0, 1.0]))
    assert coins > fixed
    generator = np.random.default_rng(0)
    for _ in range(200):
        v = generator.uniform(0.5, 1, size=6)
        for p in (np.full(6, 2 / 6), 2 * v / v.sum()):
            coins, fixed = both(p, v)
            assert p.max() <= 1 and coins <= fixed * (1 + 1e-12)


def test_coins_for_one_client_are_no_draw_of_one_client():
    """K-Vib, section 3: with K = 1 a cohort may be empty or have two clients."""
    p = np.array([0.2, 0.3, 0.5])
    sizes = np.zeros(4)
    for coins in itertools.product((0, 1), repeat=3):
        sizes[sum(coins)] += np.prod(np.where(coins, p, 1 - p))
    np.testing.assert_allclose(np.arange(4) @ sizes, 1)
    assert sizes[0] > 0.2 and sizes[2] > 0.2


@pytest.mark.parametrize("centre", [0.0, 1.0])
def test_coins_err_less_than_draws_of_30_of_100_where_vectors_have_no_common_part(centre):
    """Example 3.1 of K-Vib: 100 vectors of 1,000 dimensions, the best probabilities of both kinds of draws.

    The ratio is (N - K) / (N - 1) for orthogonal vectors of one length, times 1 + c^2 with a common part of c times that length.
    """
    vectors = np.random.default_rng(0).normal(centre, size=(100, 1000))
    norms, population = np.linalg.norm(vectors, axis=1), t.Population(count=100)

    def error(sampler):
        return float(sampler.variance(None, population, vectors))

    ratios = {}
    with jax.enable_x64(True):
        for size in (10, 30):
            coins = t.Independent(np.asarray(capped(norms, np.asarray(float(size))))).bind(population)
            ratios[size] = error(coins) / error(t.WithReplacement(norms / norms.sum(), size=size).bind(population))
    assert ratios == pytest.approx({size: (100 - size) / 99 * (1 + centre**2) for size in ratios}, rel=0.02)


def test_the_bounds_of_lemma_5_1_of_k_vib_need_square_roots():
    """Nobody is capped, p = K sqrt(a) / sum sqrt(a): a_i < sum a / K fails, sqrt(a_i) < sum sqrt(a) / K holds."""
    root, size = np.array([1.0, 1.0, 1.9]), 2
    p = size * root / root.sum()
    assert p.max() < 1 and p.sum() == size
    assert np.all(root < root.sum() / size)
    assert np.max(root**2) > np.sum(root**2) / size


def test_optimal_draws_differ_from_optimal_draws():
    """K-Vib, before equation (8): E|sum_S v / p - sum_S* v / p*|^2 is above sum v^2 / p - sum v^2 / p*, which is 0 for p = p*."""
    p, v = np.array([0.4, 0.6]), np.array([2.0, 3.0])
    outcomes = [(np.prod(np.where(coins, p, 1 - p)), np.dot(coins, v / p)) for coins in itertools.product((0, 1), repeat=2)]
    quality = sum(one * other * (x - y) ** 2 for (one, x), (other, y) in itertools.product(outcomes, repeat=2))
    np.testing.assert_allclose(quality, 2 * np.sum((1 - p) * v**2 / p))
    assert quality > 0


def test_fedavg_sppm_is_fedprox_sppm_in_its_first_exchange_only():
    """Cohort Squeeze, appendix B.4: the proximal terms around x_t and around x_k have different centres."""
    b, h, start, gamma, alpha = np.array([1.0, -2.0, 4.0]), np.array([1.0, 2.0, 0.5]), 3.0, 2.0, 0.7
    step = alpha * gamma / (alpha + gamma)

    def mean_of_prox(centre):
        return np.mean((centre + step * h * b) / (1 + step * h))

    average = prox = start
    first, second = [], []
    for found in (first, second):
        average, prox = mean_of_prox((alpha * start + gamma * average) / (alpha + gamma)), mean_of_prox(prox)
        found += [average, prox]
    np.testing.assert_allclose(*first, rtol=1e-12)
    assert abs(second[0] - second[1]) > 0.1


def test_the_error_of_sag_does_not_vanish_for_clients_that_are_alike():
    """Cost-aware client selection, appendix D, with two clients and one change of x: both errors by enumeration."""
    for alike in (True, False):
        before, after = np.random.default_rng(1).normal(size=(2, 2, 3))
        if alike:
            before[1], after[1] = before[0], after[0]
        kept = [np.where(np.arange(2)[:, None] == drawn, after, before).mean(0) for drawn in range(2)]
        fresh = [after[drawn] - before[drawn] + before.mean(0) for drawn in range(2)]
        sag, saga = (np.mean([np.sum((each - after.mean(0)) ** 2) for each in some]) for some in (kept, fresh))
        moved = after - before
        np.testing.assert_allclose(sag, np.sum(moved**2) / 8)
        np.testing.assert_allclose(saga, np.sum((moved - moved.mean(0)) ** 2) / 2, atol=1e-15)
        assert sag > 0.1 and (saga < 1e-15) == alike


@pytest.mark.parametrize(("delta", "delta_one", "leads"), [(5.0, 5.0, True), (50.0, 1.0, False)])
def test_rg_saga_is_ahead_of_fedred_unless_the_delegate_is_like_the_mean(delta, delta_one, leads):
    """Cost-aware client selection, Table 1: n_m Delta_1 against Delta_1 + sqrt(n_m) delta_m, in cost and in local queries."""
    constants = Dissimilarity(delta, delta_one, delta_max=200.0, smooth_one=100.0, smooth_max=300.0, smooth_f=100.0)
    case = Case(constants, clients=10, size=1, gap=1.0, epsilon=0.01, price=Selection(1.0, 1.0))
    rows = {row.method: row for row in TABLE}
    mine, rival = rows["I-CGM-RG-SAGA"], rows["FedRed"]
    assert (mine.price(case) < rival.price(case)) == leads
    printed = 100 + 10 * delta_one
    assert mine.queries is not None
    assert (mine.queries(case) < printed / case.epsilon**2) == leads
