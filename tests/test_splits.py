"""Splits: which rows become which client."""

import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.stats import norm

from turnout.data import Dataset, splits
from turnout.data.mnist import WRITERS
from turnout.data.splits import Split, classes
from turnout.data.splits.natural import THINNING
from turnout.errors import UserError


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


KINDS = [
    splits.SortedSplit,
    splits.ContiguousSplit,
    splits.IidSplit,
    power,
    log_normal,
    lambda clients: splits.DirichletSplit(clients, 50.0),
]


@pytest.mark.parametrize("kind", KINDS, ids=["sorted", "contiguous", "iid", "power", "log-normal", "dirichlet"])
@given(rows_and_clients())
@settings(max_examples=30, deadline=None)
def test_every_row_goes_to_exactly_one_client(kind, sizes):
    rows, clients = sizes
    try:
        split = kind(clients).split(dataset(rows))
    except UserError as error:
        assume("draws all left" not in str(error))
        raise
    assert split.clients == clients
    assert np.array_equal(np.sort(split.indices), np.arange(rows))
    assert split.sizes.min() >= 1 and split.sizes.sum() == rows
    assert split.indices.dtype == split.offsets.dtype == np.int64


@pytest.mark.parametrize("kind", KINDS[:3], ids=["sorted", "contiguous", "iid"])
@given(rows_and_clients())
@settings(max_examples=20, deadline=None)
def test_near_equal_sizes_differ_by_at_most_one(kind, sizes):
    rows, clients = sizes
    assert np.ptp(kind(clients).split(dataset(rows)).sizes) <= 1


SEEDED = [
    lambda seed: splits.IidSplit(5, seed=seed),
    lambda seed: power(5, seed),
    lambda seed: log_normal(5, seed),
    lambda seed: splits.DirichletSplit(5, 1.0, seed=seed),
    lambda seed: splits.KMeansSplit(3, 2, seed=seed),
]


@pytest.mark.parametrize("kind", SEEDED, ids=["iid", "power", "log-normal", "dirichlet", "kmeans"])
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


def follow(found, share):
    """Whether falling sizes above the least one share the other rows as `share` says, to rounding."""
    large = found > 1
    expected = share[large] / share[large].sum() * found[large].sum()
    return np.all(np.diff(found) <= 0) and np.all(np.abs(found[large] - expected) <= 1 + 1e-9)


@given(rows_and_clients(), st.floats(0, 50), st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_log_normal_sizes_follow_the_draws_to_rounding(sizes, sigma, seed):
    rows, clients = sizes
    normal = np.sort(np.random.default_rng(seed).normal(size=clients))[::-1]
    found = splits.LogNormalSplit(clients, sigma, seed).split(dataset(rows)).sizes
    assert follow(found, np.exp(sigma * (normal - normal[0])))


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
    found = splits.PowerSplit(clients, exponent).split(dataset(rows)).sizes
    assert follow(found, np.arange(1, clients + 1.0) ** -exponent)


def test_power_with_exponent_zero_is_near_equal_and_a_huge_one_gives_all_to_the_first():
    assert np.ptp(splits.PowerSplit(7, 0.0).split(dataset()).sizes) <= 1
    assert splits.PowerSplit(7, 1e6).split(dataset()).sizes.tolist() == [54, 1, 1, 1, 1, 1, 1]


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


def test_dirichlet_that_leaves_a_client_empty_is_redrawn_and_in_the_end_reported():
    data = Dataset("made", np.zeros((12, 1)), np.zeros(12))
    for seed in range(20):
        assert splits.DirichletSplit(4, 0.5, seed=seed).split(data).sizes.min() >= 1
    with pytest.raises(UserError, match="larger concentration or fewer clients"):
        splits.DirichletSplit(12, 0.01).split(data)


@pytest.mark.parametrize("concentration", [1e-6, 1e-3, 1e9])
def test_extreme_concentrations_give_a_split_or_a_user_error(concentration):
    try:
        split = splits.DirichletSplit(3, concentration).split(dataset())
    except UserError:
        return
    assert np.array_equal(np.sort(split.indices), np.arange(60))


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


def test_natural_gives_one_client_an_id_in_order():
    ids = np.array([7, 3, 7, 3, 3, 9])
    split = splits.NaturalSplit().split(dataset(6, ids=ids))
    assert [rows.tolist() for rows in members(split)] == [[1, 3, 4], [0, 2], [5]]


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40))
@settings(max_examples=30, deadline=None)
def test_natural_clients_hold_one_id_each(ids):
    ids = np.array(ids)
    split = splits.NaturalSplit().split(dataset(len(ids), ids=ids))
    assert split.clients == np.unique(ids).size
    assert all(np.unique(ids[rows]).size == 1 for rows in members(split))


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40), st.data(), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_some_natural_clients_are_whole_ones_in_order(ids, data, seed):
    made = dataset(len(ids), ids=np.array(ids))
    clients = data.draw(st.integers(1, np.unique(ids).size))
    split = splits.NaturalSplit(clients, seed).split(made)
    everyone = [rows.tolist() for rows in members(splits.NaturalSplit().split(made))]
    numbers = [everyone.index(rows.tolist()) for rows in members(split)]
    assert split.clients == clients and numbers == sorted(set(numbers))
    assert np.array_equal(split.indices, splits.NaturalSplit(clients, seed).split(made).indices)


def test_every_natural_client_is_drawn_equally_often():
    made = dataset(10, ids=np.arange(10) // 2)
    drawn = np.concatenate([splits.NaturalSplit(2, seed).split(made).indices for seed in range(2000)])
    assert np.all(np.abs(np.bincount(drawn) - 800) < 4 * np.sqrt(2000 * 0.4 * 0.6))


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=120),
    st.integers(1, 30),
    st.floats(0, 1),
    st.integers(1, 6),
    st.integers(0, 9),
)
@settings(max_examples=60, deadline=None)
def test_thinning_keeps_large_clients_whole_and_a_few_rows_of_some_others(ids, least, dropped, kept, seed):
    made, ids = dataset(len(ids), ids=np.array(ids)), np.array(ids)
    thinned = splits.ThinnedSplit(dropped, least, kept, seed)
    large = {client for client, size in zip(*np.unique(ids, return_counts=True), strict=True) if size >= least}
    try:
        split = thinned.split(made)
    except UserError as error:
        assert "left no client of made" in str(error) and not large
        return
    seen = [ids[rows[0]] for rows in members(split)]
    assert np.all(np.diff(seen) > 0) and large <= set(seen)
    for client, rows in zip(seen, members(split), strict=True):
        size = np.count_nonzero(ids == client)
        assert np.all(ids[rows] == client) and rows.size == (size if client in large else min(kept, size))
    if dropped == 0:
        assert split.clients == np.unique(ids).size
    assert np.array_equal(split.indices, thinned.split(made).indices)


def test_thinning_drops_with_its_probability_and_keeps_random_rows():
    made = dataset(8000, ids=np.arange(8000) // 8)
    split = splits.ThinnedSplit(0.3, least=9, kept=2).split(made)
    assert abs(split.clients - 700) < 4 * np.sqrt(1000 * 0.3 * 0.7)
    places = np.bincount(split.indices % 8, minlength=8)
    assert np.all(np.abs(places - split.clients / 4) < 4 * np.sqrt(split.clients * 3 / 16))


def test_the_thinned_writers_of_mnist_are_as_unequal_as_those_of_femnist(real_data):
    """10, 20 and 50 % of the clients hold 82, 90 and 98 % of the images (K-Vib, section 6.2)."""
    if not (real_data / WRITERS).exists():
        pytest.skip("the writers of MNIST are not in the folder of the real data sets")
    with np.load(real_data / WRITERS) as file:
        writers = file["train_writer"]
    data = Dataset("mnist", np.zeros((writers.size, 1)), np.zeros(writers.size), writers)
    for level, share, held in (("v1", 0.1, 0.82), ("v2", 0.2, 0.9), ("v3", 0.5, 0.98)):
        sizes = splits.ThinnedSplit(THINNING[level]).split(data).sizes
        large = sizes > 3
        assert abs(large.mean() - share) < 0.03 and abs(sizes[large].sum() / sizes.sum() - held) < 0.03


@pytest.mark.parametrize(
    "partitioner, options",
    [
        ("IidPartitioner", {"num_partitions": 4}),
        ("DirichletPartitioner", {"num_partitions": 4, "partition_by": "label", "alpha": 5.0}),
        ("PathologicalPartitioner", {"num_partitions": 4, "partition_by": "label", "num_classes_per_partition": 2}),
        ("ShardPartitioner", {"num_partitions": 4, "partition_by": "label", "num_shards_per_partition": 2}),
    ],
)
def test_the_partitions_of_flwr_datasets_are_clients(partitioner, options):
    data = dataset(240)
    split = splits.FlwrSplit(partitioner, options).split(data)
    assert split.clients == 4 and np.array_equal(np.sort(split.indices), np.arange(240))
    assert np.array_equal(split.indices, splits.FlwrSplit(partitioner, options).split(data).indices)
    if partitioner == "PathologicalPartitioner":
        assert all(np.unique(data.labels[rows]).size == 2 for rows in members(split))


def test_flwr_datasets_cut_by_the_ids():
    ids = np.array([7, 3, 7, 3, 3, 9])
    split = splits.FlwrSplit("NaturalIdPartitioner", {"partition_by": "client"}).split(dataset(6, ids=ids))
    assert sorted(rows.tolist() for rows in members(split)) == [[0, 2], [1, 3, 4], [5]]


@pytest.mark.parametrize(
    "partitioner, options, message",
    [
        ("DirichletPartioner", {}, "did you mean 'DirichletPartitioner'"),
        ("IidPartitioner", {"clients": 3}, "IidPartitioner cannot cut made .*'clients'.*change its options"),
        ("NaturalIdPartitioner", {"partition_by": "client"}, "NaturalIdPartitioner cannot cut made"),
        ("IidPartitioner", {"num_partitions": 70}, "client .* of the split has no rows|cannot cut made"),
    ],
)
def test_a_partitioner_that_cannot_cut_is_a_user_error(partitioner, options, message):
    with pytest.raises(UserError, match=message):
        splits.FlwrSplit(partitioner, options).split(dataset())


def test_without_flwr_datasets_the_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr_datasets.partitioner", None)
    with pytest.raises(UserError, match=r"pip install 'turnout\[data\]'"):
        splits.FlwrSplit("IidPartitioner", {"num_partitions": 3}).split(dataset())


@pytest.mark.parametrize("kind", [splits.NaturalSplit(), splits.NaturalSplit(3), splits.ThinnedSplit(0.5)])
def test_natural_clients_need_ids(kind):
    with pytest.raises(UserError, match="made has no ids"):
        kind.split(dataset())


def test_more_natural_clients_than_there_are_is_a_user_error():
    with pytest.raises(UserError, match="made has 2 clients, not 3"):
        splits.NaturalSplit(3).split(dataset(4, ids=np.array([1, 1, 2, 2])))


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
    holds = classes._pairs(generator, clients, 3)
    assert np.all(holds.sum(axis=1) == 2)
    counts = (~holds).sum(axis=0)
    assert np.all(np.abs(counts - clients / 3) < 4 * np.sqrt(clients * 2 / 9))
    holds = np.array([[True, True, False], [True, False, True], [True, True, False]])
    owner = classes._deal(generator, holds, np.repeat([0, 1, 2], 3000))
    first = np.bincount(owner[:3000], minlength=3)
    assert np.all(np.abs(first - 1000) < 4 * np.sqrt(3000 * 2 / 9))
    assert set(owner[3000:6000]) == {0, 2} and set(owner[6000:]) == {1}


def test_two_classes_need_two_classes_with_clients_enough():
    with pytest.raises(UserError, match="needs two classes, but made has 1"):
        splits.TwoClassSplit(3).split(dataset(20, 1))
    with pytest.raises(UserError, match="one of the 5 classes without a client"):
        splits.TwoClassSplit(2).split(dataset(60, 5))
