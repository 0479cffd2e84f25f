"""Splits by the clients that come with the data, and by the partitioners of flwr-datasets."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.test_splits import dataset, members
from turnout.core.errors import UserError
from turnout.data import Dataset, splits
from turnout.data.mnist import WRITERS
from turnout.data.splits.natural import THINNING


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


@pytest.mark.tiers(
    quick=["PathologicalPartitioner-options2", "ShardPartitioner-options3"], longer=["DirichletPartitioner-options1"]
)
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
    with pytest.raises(UserError, match=r"pip install 'turnout\[hugging-face\]'"):
        splits.FlwrSplit("IidPartitioner", {"num_partitions": 3}).split(dataset())


@pytest.mark.parametrize("kind", [splits.NaturalSplit(), splits.NaturalSplit(3), splits.ThinnedSplit(0.5)])
def test_natural_clients_need_ids(kind):
    with pytest.raises(UserError, match="made has no ids"):
        kind.split(dataset())


def test_more_natural_clients_than_there_are_is_a_user_error():
    with pytest.raises(UserError, match="made has 2 clients, not 3"):
        splits.NaturalSplit(3).split(dataset(4, ids=np.array([1, 1, 2, 2])))
