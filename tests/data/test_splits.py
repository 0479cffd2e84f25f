"""Splits: which rows become which client."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.stats import norm

from turnout.core.errors import UserError
from turnout.data import Dataset, splits
from turnout.data.splits import Split, by_label


def dataset(rows=60, classes=3, ids=None) -> Dataset:
    generator = np.random.default_rng(rows)
    labels = generator.integers(classes, size=rows)
    return Dataset("made", generator.normal(size=(rows, 2)) + 10 * labels[:, None], labels, ids)


def members(split: Split) -> list[np.ndarray]:
    return [split.rows(client) for client in range(split.clients)]


def power(clients, seed=0):
    return splits.PowerSplit(clients, 1.0, seed)


def log_normal(clients, seed=0):
    return splits.LogNormalSplit(clients, 2.0, seed)


@st.composite
def rows_and_clients(draw):
    rows = draw(st.integers(1, 80))
    return rows, draw(st.integers(1, rows))


def half_sorted(clients, seed=0):
    return splits.SortedSplit(clients, 0.5, seed)


KINDS = [
    splits.SortedSplit,
    half_sorted,
    splits.ContiguousSplit,
    splits.IidSplit,
    power,
    log_normal,
    lambda clients: splits.DirichletSplit(clients, 50.0),
    lambda clients: splits.ShardsSplit(clients, shards=1),
]


@pytest.mark.filterwarnings("ignore::turnout.core.errors.Caution")
@pytest.mark.parametrize(
    "kind", KINDS, ids=["sorted", "half-sorted", "contiguous", "iid", "power", "log-normal", "dirichlet", "shards"]
)
@given(rows_and_clients())
@settings(max_examples=30, deadline=None)
def test_every_row_goes_to_exactly_one_client(kind, sizes):
    rows, clients = sizes
    split = kind(clients).split(dataset(rows))
    assert split.clients == clients
    assert np.array_equal(np.sort(split.indices), np.arange(rows))
    assert split.sizes.min() >= 1 and split.sizes.sum() == rows
    assert split.indices.dtype == split.offsets.dtype == np.int64


@pytest.mark.parametrize("kind", KINDS[:4], ids=["sorted", "half-sorted", "contiguous", "iid"])
@given(rows_and_clients())
@settings(max_examples=20, deadline=None)
def test_near_equal_sizes_differ_by_at_most_one(kind, sizes):
    rows, clients = sizes
    assert np.ptp(kind(clients).split(dataset(rows)).sizes) <= 1


SEEDED = [
    lambda seed: half_sorted(5, seed),
    lambda seed: splits.IidSplit(5, seed=seed),
    lambda seed: power(5, seed),
    lambda seed: log_normal(5, seed),
    lambda seed: splits.DirichletSplit(5, 1.0, seed=seed),
    lambda seed: splits.KMeansSplit(3, 2, seed=seed),
    lambda seed: splits.LabelsSplit(6, labels=2, seed=seed),
    lambda seed: splits.ShardsSplit(5, seed=seed),
]


@pytest.mark.parametrize(
    "kind", SEEDED, ids=["half-sorted", "iid", "power", "log-normal", "dirichlet", "kmeans", "labels", "shards"]
)
def test_a_seed_fixes_the_split_and_another_one_changes_it(kind):
    one, again, other = (kind(seed).split(dataset()) for seed in (3, 3, 4))
    assert np.array_equal(one.indices, again.indices) and np.array_equal(one.offsets, again.offsets)
    assert not np.array_equal(one.indices, other.indices)


def test_splits_leave_the_global_generator_alone():
    before = np.random.get_state()[1].copy()
    for kind in SEEDED:
        kind(0).split(dataset())
    assert np.array_equal(np.random.get_state()[1], before)


def test_contiguous_keeps_the_order_of_the_file():
    assert np.array_equal(splits.ContiguousSplit(7).split(dataset()).indices, np.arange(60))


def test_sorted_orders_by_label_and_keeps_the_order_within_a_label():
    data = dataset()
    indices = splits.SortedSplit(4).split(data).indices
    expected = [row for label in np.unique(data.labels) for row in np.flatnonzero(data.labels == label)]
    assert indices.tolist() == expected


def test_sorted_gives_one_client_one_class_where_blocks_fit():
    data = Dataset("made", np.zeros((40, 1)), np.tile(np.arange(4), 10))
    for rows in members(splits.SortedSplit(8).split(data)):
        assert np.unique(data.labels[rows]).size == 1


@given(st.floats(0, 1), st.integers(0, 5))
def test_rows_that_are_not_sorted_lie_anywhere(share, seed):
    data = Dataset("made", np.zeros((1000, 1)), np.tile(np.arange(10), 100))
    order = splits.SortedSplit(10, share, seed).split(data).indices
    at_home = np.mean(data.labels[order] == np.repeat(np.arange(10), 100))
    # A row that moves finds its label's block with probability 1 / 10: the share has a deviation of at most 0.01.
    assert abs(at_home - (share + (1 - share) / 10)) <= 0.05


@given(st.integers(4, 12), st.integers(1, 4), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_clients_with_a_label_share_its_rows_evenly_and_each_has_so_many_labels(clients, labels, seed):
    data = Dataset("made", np.zeros((400, 1)), np.tile(np.arange(4), 100))
    split = splits.LabelsSplit(clients, labels, seed).split(data)
    assert np.array_equal(np.sort(split.indices), np.arange(400))
    counts = np.stack([np.bincount(data.labels[rows], minlength=4) for rows in members(split)])
    assert ((counts > 0).sum(axis=1) == labels).all() and counts[np.arange(clients), np.arange(clients) % 4].all()
    assert all(np.ptp(column[column > 0]) <= 1 for column in counts.T)


def test_labels_that_nobody_has_are_left_out_and_too_many_are_refused():
    data = dataset(rows=60, classes=3)
    split = splits.LabelsSplit(2, labels=1).split(data)
    assert [np.unique(data.labels[rows]).tolist() for rows in members(split)] == [[0], [1]]
    with pytest.raises(UserError, match="made has 3 labels, so a client cannot have 4: take fewer"):
        splits.LabelsSplit(2, labels=4).split(data)
    with pytest.raises(UserError, match="100 clients leave one of them without a row: take fewer"):
        splits.LabelsSplit(100, labels=1).split(data)


@given(st.integers(1, 10), st.integers(1, 5), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_a_client_has_so_many_blocks_of_the_rows_sorted_by_label(clients, shards, seed):
    data, owner = dataset(rows=50, classes=5), np.empty(50, int)
    for client, rows in enumerate(members(splits.ShardsSplit(clients, shards, seed).split(data))):
        owner[rows] = client
    owners = [np.unique(owner[rows]) for rows in np.array_split(np.argsort(data.labels, kind="stable"), clients * shards)]
    assert all(of.size == 1 for of in owners)
    assert np.bincount(np.concatenate(owners), minlength=clients).tolist() == [shards] * clients


def follow(sizes, share):
    """Whether falling sizes above the least one share the other rows as `share` says, to rounding."""
    large = sizes > 1
    expected = share[large] / share[large].sum() * sizes[large].sum()
    return np.all(np.diff(sizes) <= 0) and np.all(np.abs(sizes[large] - expected) <= 1 + 1e-9)


@given(rows_and_clients(), st.floats(0, 50), st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_log_normal_sizes_follow_the_draws_to_rounding(sizes, sigma, seed):
    rows, clients = sizes
    normal = np.sort(np.random.default_rng(seed).normal(size=clients))[::-1]
    sizes = splits.LogNormalSplit(clients, sigma, seed).split(dataset(rows)).sizes
    assert follow(sizes, np.exp(sigma * (normal - normal[0])))


@pytest.mark.longer
def test_log_normal_sizes_have_the_law_and_three_levels_of_tails():
    """Among 1,000 clients log n_i has the mean and the deviation of the law, and the largest tenth its share."""
    data = Dataset("made", np.zeros((10**5, 1)), np.zeros(10**5))
    mild = np.log(splits.LogNormalSplit(1000, 1.0).split(data).sizes)
    assert abs(mild.std() - 1) < 4 / np.sqrt(2 * 1000) and abs(np.mean((mild - mild.mean()) ** 3)) < 4 * np.sqrt(6 / 1000)
    for sigma in (1.0, 2.0, 3.0):
        # E[e^(sigma z); z > q] / E[e^(sigma z)] = Phi(sigma - q), and a few very large clients make the share uncertain.
        held = splits.LogNormalSplit(1000, sigma).split(data).sizes[:100].sum() / 1e5
        assert abs(held - norm.cdf(sigma - norm.ppf(0.9))) < 0.1


@given(rows_and_clients(), st.floats(0, 4))
@settings(max_examples=50, deadline=None)
def test_power_sizes_follow_the_law_to_rounding(sizes, exponent):
    rows, clients = sizes
    sizes = splits.PowerSplit(clients, exponent).split(dataset(rows)).sizes
    assert follow(sizes, np.arange(1, clients + 1.0) ** -exponent)


def test_power_with_exponent_zero_is_near_equal_and_a_huge_one_gives_all_to_the_first():
    assert np.ptp(splits.PowerSplit(7, 0.0).split(dataset()).sizes) <= 1
    assert splits.PowerSplit(7, 1e6).split(dataset()).sizes.tolist() == [54, 1, 1, 1, 1, 1, 1]


EVERY = {
    "sorted": splits.SortedSplit,
    "half-sorted": half_sorted,
    "contiguous": splits.ContiguousSplit,
    "iid": splits.IidSplit,
    "power": power,
    "log-normal": log_normal,
    "dirichlet": lambda clients: splits.DirichletSplit(clients, 0.3),
    "two-classes": splits.TwoClassSplit,
    "kmeans": lambda clients: splits.KMeansSplit(1, clients),
    "natural": splits.NaturalSplit,
    "thinned": lambda clients: splits.ThinnedSplit(0.0, 1),
}


@pytest.mark.filterwarnings("ignore::turnout.core.errors.Caution")
@pytest.mark.parametrize("kind", EVERY)
def test_every_split_takes_classes_without_rows(kind):
    """Classes that are known and missing have no rows, and change nothing."""
    seen = Dataset("made", np.zeros((12, 1)), np.repeat([1.0, 3.0], 6), np.arange(12) % 4)
    known = replace(seen, known_classes=np.array([0.0, 1.0, 2.0, 3.0, 9.0]))
    split, other = EVERY[kind](4).split(seen), EVERY[kind](4).split(known)
    assert np.array_equal(split.indices, other.indices) and np.array_equal(split.offsets, other.offsets)


@pytest.mark.filterwarnings("ignore::turnout.core.errors.Caution")
@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind != "two-classes"])
def test_every_split_gives_as_many_clients_as_rows_a_row_each(kind):
    data = Dataset("made", np.zeros((6, 1)), np.array([0.0, 0, 0, 0, 0, 1]), np.arange(6))
    split = EVERY[kind](6).split(data)
    assert split.sizes.tolist() == [1] * 6 and np.sort(split.indices).tolist() == list(range(6))


@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind != "thinned"])
def test_every_split_refuses_more_clients_than_there_can_be(kind):
    data = Dataset("made", np.zeros((6, 1)), np.arange(6.0) % 2, np.arange(6))
    with pytest.raises(UserError, match=r"clients.*: take (fewer|other)"):
        EVERY[kind](7).split(data)


@pytest.mark.parametrize("sparse", [False, True])
def test_kmeans_recovers_separated_clusters_and_makes_them_strata(sparse):
    data = dataset(90)
    if sparse:
        data = Dataset("made", csr_array(data.features), data.labels)
    split = splits.KMeansSplit(3, 4, seed=1).split(data)
    assert split.clients == 12 and split.strata.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert np.array_equal(np.sort(split.indices), np.arange(90))
    for stratum in range(3):
        rows = np.concatenate([split.rows(client) for client in np.flatnonzero(split.strata == stratum).tolist()])
        assert np.unique(data.labels[rows]).size == 1
        assert np.ptp(split.sizes[split.strata == stratum]) <= 1


def test_kmeans_shuffles_the_rows_of_a_cluster():
    split = splits.KMeansSplit(1, 2).split(dataset())
    assert not np.array_equal(np.sort(members(split)[0]), np.arange(30))


def test_a_cluster_too_small_for_its_clients_is_named():
    features = np.concatenate([np.zeros((30, 1)), [[1000.0]]])
    with pytest.raises(UserError, match=r"cluster \d of made has 1 rows, too few for 3 clients"):
        splits.KMeansSplit(2, 3).split(Dataset("made", features, np.zeros(31)))


def test_fewer_distinct_rows_than_clusters_is_a_user_error():
    with pytest.raises(UserError, match="cluster"):
        splits.KMeansSplit(3, 1).split(Dataset("made", np.zeros((9, 2)), np.zeros(9)))


@pytest.mark.parametrize("kind", [*KINDS, lambda clients: splits.KMeansSplit(clients, 1)])
def test_more_clients_than_rows_is_a_user_error(kind):
    with pytest.raises(UserError, match="11 clients cannot share the 10 rows of made"):
        kind(11).split(dataset(10))


@pytest.mark.parametrize(
    "make",
    [
        lambda: splits.IidSplit(0),
        lambda: splits.IidSplit(3, seed=-1),
        lambda: splits.DirichletSplit(3, 0.0),
        lambda: splits.DirichletSplit(3, float("nan")),
        lambda: splits.DirichletSplit(3, float("inf")),
        lambda: splits.KMeansSplit(3, 2, seed=2**32),
        lambda: splits.PowerSplit(3, -1.0),
        lambda: splits.LogNormalSplit(3, -1.0),
        lambda: splits.ThinnedSplit(1.5),
        lambda: splits.NaturalSplit(0),
        lambda: splits.KMeansSplit(0, 2),
    ],
)
def test_values_out_of_bounds_are_user_errors(make):
    with pytest.raises(UserError, match="must be"):
        make()


def test_only_kmeans_has_strata():
    assert all(kind(4).split(dataset()).strata is None for kind in KINDS)


@pytest.mark.parametrize(
    "indices, offsets, strata, message",
    [
        ([0, 1], [0, 1, 1, 2], None, "client 1 of the split has no rows"),
        ([4, 4], [0, 1, 2], None, "row 4 appears twice"),
        ([0, -1], [0, 1, 2], None, "one is -1"),
        ([0, 1], [0, 1, 2], [0], "as many strata, but got 1"),
        ([], [0], None, "at least one client"),
        ([0, 1, 2], [0, 1, 2], None, "offsets"),
        ([0, 1], [1, 2], None, "offsets"),
        ([0.5, 1], [0, 1, 2], None, "indices of a split are whole numbers"),
        ([0, 1], [0, np.nan, 2], None, "offsets of a split are whole numbers"),
        ([True, False], [0, 1, 2], None, "indices of a split are whole numbers"),
        ([0, 1], [0, 1, 2], ["a", "b"], "strata of a split are whole numbers"),
    ],
)
def test_a_split_that_is_none_is_refused(indices, offsets, strata, message):
    with pytest.raises(UserError, match=message):
        Split(np.array(indices), np.array(offsets), None if strata is None else np.array(strata))


def test_row_numbers_beyond_the_data_set_are_refused():
    assert members(Split.of([[2, 0], [1]], rows=3))[0].tolist() == [2, 0]
    with pytest.raises(UserError, match="a split of 3 rows names row 3"):
        Split.of([[2, 0], [3]], rows=3)
    with pytest.raises(UserError, match="client 1 of the split has no rows"):
        Split.of([[2, 0], []], rows=3)
    with pytest.raises(UserError, match="rows of a split are whole numbers"):
        Split.of([[2, 0], [1.5]], rows=3)


def test_the_remainder_may_go_to_the_last_client():
    split = splits.ContiguousSplit(7, remainder="last").split(dataset(60))
    assert np.array_equal(split.indices, np.arange(60)) and split.sizes.tolist() == [8] * 6 + [12]
    with pytest.raises(UserError, match="61 clients cannot share the 60 rows"):
        splits.ContiguousSplit(61, remainder="last").split(dataset(60))


@given(st.integers(4, 30), st.integers(2, 6), st.integers(0, 50))
@settings(max_examples=30, deadline=None)
def test_two_classes_a_client_at_most_and_every_row_used(clients, classes, seed):
    made = dataset(400, classes)
    split = splits.TwoClassSplit(clients, seed).split(made)
    assert split.clients == clients and split.sizes.min() >= 1
    assert np.array_equal(np.sort(split.indices), np.arange(400))
    assert all(np.unique(made.labels[rows]).size <= 2 for rows in members(split))
    assert np.array_equal(split.indices, splits.TwoClassSplit(clients, seed).split(made).indices)


def test_every_pair_of_classes_and_every_holder_is_equally_likely():
    """Of 3 classes each client holds one of 3 pairs; a row is with each of its class's holders equally often."""
    generator, clients = np.random.default_rng(0), 3000
    holds = by_label._pairs(generator, clients, 3)
    assert np.all(holds.sum(axis=1) == 2)
    counts = (~holds).sum(axis=0)
    assert np.all(np.abs(counts - clients / 3) < 4 * np.sqrt(clients * 2 / 9))
    holds = np.array([[True, True, False], [True, False, True], [True, True, False]])
    owner = by_label._deal(generator, holds, np.repeat([0, 1, 2], 3000))
    first = np.bincount(owner[:3000], minlength=3)
    assert np.all(np.abs(first - 1000) < 4 * np.sqrt(3000 * 2 / 9))
    assert set(owner[3000:6000]) == {0, 2} and set(owner[6000:]) == {1}


def test_two_classes_need_two_classes_with_clients_enough():
    with pytest.raises(UserError, match="needs two classes, but made has 1"):
        splits.TwoClassSplit(3).split(dataset(20, 1))
    with pytest.raises(UserError, match="one of the 5 classes without a client"):
        splits.TwoClassSplit(2).split(dataset(60, 5))
