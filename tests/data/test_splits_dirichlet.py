"""Splits by Dirichlet shares: their law, their rounding, and the least rows of a client."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from tests.data.test_splits import dataset, members
from turnout.core.errors import Caution, UserError
from turnout.data import Dataset, splits
from turnout.data.splits import by_label


@pytest.mark.parametrize("seed", range(3))
def test_dirichlet_with_a_large_concentration_gives_everyone_the_global_mix(seed):
    labels = np.repeat([0, 1, 2], [4000, 2000, 1000])
    data = Dataset("made", np.zeros((7000, 1)), labels)
    for rows in members(splits.DirichletSplit(5, 1e6, seed=seed).split(data)):
        mix = np.bincount(labels[rows], minlength=3) / len(rows)
        assert np.allclose(mix, [4 / 7, 2 / 7, 1 / 7], atol=0.01)
        assert abs(len(rows) - 1400) < 20


def test_dirichlet_with_a_small_concentration_gives_few_labels_a_client():
    labels = np.repeat(np.arange(10), 200)
    data = Dataset("made", np.zeros((2000, 1)), labels)
    skewed, mixed = (splits.DirichletSplit(5, alpha).split(data) for alpha in (0.05, 100.0))

    def largest_share(split):
        return np.mean([np.bincount(labels[rows], minlength=10).max() / len(rows) for rows in members(split)])

    assert largest_share(mixed) < 0.15 < 2 * 0.15 < largest_share(skewed)


def test_dirichlet_deals_the_rows_of_a_label_in_random_order():
    data = Dataset("made", np.zeros((60, 1)), np.zeros(60))
    first = splits.DirichletSplit(2, 1e9).split(data).rows(0)
    assert not np.array_equal(np.sort(first), np.arange(first.size))


@pytest.mark.longer
def test_dirichlet_with_a_large_concentration_is_uniform_and_labels_are_rounded_apart():
    """Two rows of two labels lie at each pair of clients equally often, and a client has its share of a label to rounding."""
    data, pairs = Dataset("made", np.zeros((14, 1)), np.repeat([0, 1], 7)), np.zeros((4, 4))
    for seed in range(1600):
        split = splits.DirichletSplit(4, 1e9, seed=seed, min_rows=1).split(data)
        owner = np.repeat(np.arange(4), split.sizes)[np.argsort(split.indices)]
        pairs[owner[0], owner[7]] += 1
        assert all(set(np.bincount(owner[rows], minlength=4)) == {1, 2} for rows in (slice(0, 7), slice(7, 14)))
    assert chisquare(pairs.ravel()).pvalue > 1e-4


@given(st.integers(1, 9), st.integers(0, 50), st.floats(0.01, 100), st.integers(0, 2**32))
def test_dirichlet_rounds_the_shares_of_a_label_up_or_down(clients, total, concentration, seed):
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.full(clients, concentration))
    order, counts = by_label._rounded(generator, shares, total)
    assert counts.sum() == total and np.all(np.abs(counts - shares[order] * total) < 1 + 1e-9)


def test_dirichlet_rounds_shares_right_on_average():
    generator, shares, total = np.random.default_rng(0), np.array([0.05, 0.3, 0.65]), 3
    mean = np.zeros(3)
    for _ in range(4000):
        order, counts = by_label._rounded(generator, shares, total)
        mean[order] += counts / 4000
    assert np.allclose(mean, shares * total, atol=4 * 0.5 / np.sqrt(4000))


@pytest.mark.filterwarnings("ignore::turnout.core.errors.Caution")
@given(st.integers(1, 25), st.sampled_from([1e-6, 0.01, 1.0, 1e9]), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_dirichlet_gives_every_client_its_least_rows_whatever_the_concentration(clients, concentration, least, seed):
    made = dataset(100, 5)
    split = splits.DirichletSplit(clients, concentration, seed, least).split(made)
    assert np.array_equal(np.sort(split.indices), np.arange(100)) and split.sizes.min() >= least


def test_dirichlet_tops_clients_up_from_the_largest_and_says_so():
    owner = np.repeat([0, 1, 2], [10, 7, 3])
    with pytest.warns(Caution, match="1 of 4 clients drew fewer than 3 rows and got the rest from the largest"):
        by_label._top_up(np.random.default_rng(0), owner, 4, 3)
    assert np.bincount(owner).tolist() == [7, 7, 3, 3]


def test_dirichlet_takes_alpha_for_the_concentration():
    assert splits.DirichletSplit(3, alpha=0.5) == splits.DirichletSplit(3, 0.5)
    for both in ({}, {"alpha": 0.5, "concentration": 0.5}):
        with pytest.raises(UserError, match="two names of one number"):
            splits.DirichletSplit(3, **both)


def test_dirichlet_without_the_least_rows_of_each_client_is_refused():
    with pytest.raises(UserError, match="11 clients cannot share the 20 rows of made at 2 each"):
        splits.DirichletSplit(11, 1.0, min_rows=2).split(dataset(20))
