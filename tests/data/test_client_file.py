"""Client files: what is written is what is read, from any source, in any order of the rows, and what is wrong is told."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnout as t
from turnout.core.errors import UserError
from turnout.data import IidSplit, NaturalSplit, SortedSplit, client_writer, load, made_clients, write_clients
from turnout.data.dataset import Dataset, digest
from turnout.data.splits import Split
from turnout.data.splits.split import AsStored


def clients_of(data):
    """Return the features and the labels of each client of a stored data set."""
    split, features, labels = NaturalSplit().split(data), np.asarray(data.features), np.asarray(data.labels)
    bounds = split.offsets
    return [(features[a:b], labels[a:b]) for a, b in zip(bounds, bounds[1:], strict=False)]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_is_written_is_what_is_read(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("files") / "clients.arrow"
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=12))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    shape = data.draw(st.sampled_from([(1,), (5,), (4, 3), (2, 2, 3)]))
    rows = sum(sizes)
    if len(shape) > 1:
        features = rng.integers(0, 256, (rows, *shape)).astype(np.uint8)
    else:
        features = rng.normal(size=(rows, *shape))
    labels = rng.integers(0, 3, rows) if data.draw(st.booleans()) else rng.normal(size=rows)
    order = rng.permutation(rows)
    parts = np.split(order, np.cumsum(sizes)[:-1])
    with pytest.MonkeyPatch.context() as patch:
        # Several record batches.
        patch.setattr(client_writer, "BATCH", data.draw(st.sampled_from([1, 100, 2**26])))
        write_clients(path, Dataset("made", features, labels), Split.of(parts, rows))
    stored = load(path)
    for part, (own_features, own_labels) in zip(parts, clients_of(stored), strict=True):
        np.testing.assert_array_equal(own_features, features[part])
        np.testing.assert_array_equal(own_labels, labels[part])
    assert stored.classes.tolist() == np.unique(labels).tolist()
    index = rng.integers(0, rows, 5)
    np.testing.assert_array_equal(stored.features[index], features[order][index])


@pytest.mark.tiers(quick=["True-csv"], slow=["True-parquet"])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("names", [False, True])
def test_a_table_in_any_order_is_sorted_by_client(tmp_path, monkeypatch, kind, names):
    monkeypatch.setattr(client_writer, "ROWS", 7)
    rng = np.random.default_rng(3)
    client = rng.integers(0, 6, 50)
    table = pl.DataFrame({
        "a": rng.normal(size=50), "b": rng.normal(size=50), "y": rng.integers(0, 2, 50),
        "user": [f"user {i}" for i in client] if names else client,
    })  # fmt: skip
    path = tmp_path / f"table.{kind}"
    getattr(table, f"write_{kind}")(path)
    write_clients(tmp_path / "clients.arrow", path, client="user", label="y")
    found = clients_of(load(tmp_path / "clients.arrow"))
    wanted = table.sort("user", maintain_order=True).partition_by("user", maintain_order=True)
    assert len(found) == len(wanted)
    for (features, labels), frame in zip(found, wanted, strict=True):
        np.testing.assert_allclose(features, frame.select("a", "b").to_numpy(), rtol=1e-15)
        np.testing.assert_array_equal(labels, frame["y"].to_numpy())


def rows_of(i):
    rng = np.random.default_rng(i)
    return rng.normal(size=(i % 3 + 1, 4)), rng.integers(0, 2, i % 3 + 1)


@pytest.mark.slow
def test_a_function_of_the_client_is_written_or_called_when_it_is_drawn(tmp_path):
    write_clients(tmp_path / "clients.arrow", rows_of, clients=20)
    stored, made = load(tmp_path / "clients.arrow"), made_clients(rows_of, 20, sizes=np.arange(20) % 3 + 1)
    for one, other in zip(clients_of(stored), clients_of(made), strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)
    algorithm = t.FedAvg(t.Nice(5), lr=0.1, steps=2)
    runs = [
        t.run(algorithm, t.Logistic.of(each, NaturalSplit().split(each), mu=0.1), rounds=8, metrics=("value", "accuracy"))
        for each in (stored, made)
    ]
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    np.testing.assert_array_equal(runs[0].columns["value"], runs[1].columns["value"])


PROBLEMS = {
    "logistic": ("breast_cancer", lambda data, split: t.Logistic.of(data, split, mu=0.1)),
    "multinomial": ("wine", lambda data, split: t.Multinomial.of(data, split, mu=0.1)),
    "ridge": ("diabetes", lambda data, split: t.Ridge.of(data, split, mu=0.1)),
    "network": ("wine", lambda data, split: t.problems.Network.of(data, split, hidden=4)),
    "neural": ("digits", lambda data, split: t.problems.Neural.of(data, split, "perceptron", shape=[8, 8])),
}


@pytest.mark.tiers(quick=["ridge"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_on_disk_is_the_problem_in_memory(tmp_path, name):
    source, make = PROBLEMS[name]
    data = load(source)
    data = data if name == "neural" else data.normalized("columns")
    split = SortedSplit(clients=12).split(data)
    write_clients(tmp_path / "clients.arrow", data, split)
    stored = load(tmp_path / "clients.arrow")
    with pytest.raises(t.UserError, match=f"has {data.rows} rows: split these"):
        make(stored, AsStored(np.array([0, 1, data.rows + 1])))
    algorithm = t.FedAvg(t.Nice(4), lr=1e-3, steps=2)
    options = {"rounds": 6, "metrics": ("value", "gradient"), "precision": "double"}
    one, other = (t.run(algorithm, make(*each), **options) for each in ((data, split), (stored, NaturalSplit().split(stored))))
    for left, right in zip(*(np.asarray(trace.columns["value"]) for trace in (one, other)), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12)
    assert one.ledger.totals() == other.ledger.totals()


def test_rows_are_normalized_when_they_are_read(tmp_path):
    data = load("wine")
    split = IidSplit(clients=5).split(data)
    write_clients(tmp_path / "clients.arrow", data, split)
    stored = load(tmp_path / "clients.arrow").normalized("rows")
    np.testing.assert_allclose(np.asarray(stored.features), data.normalized("rows").features[split.indices], rtol=1e-15)
    with pytest.raises(UserError, match="normalize them when the file is written"):
        stored.normalized("columns")


def test_the_digest_is_that_of_the_content(tmp_path):
    for name, shift in (("one", 0.0), ("same", 0.0), ("other", 1e-9)):
        write_clients(tmp_path / f"{name}.arrow", lambda i, shift=shift: (np.full((2, 1), i + shift), np.zeros(2)), clients=3)
    one, same, other = (digest(load(tmp_path / f"{name}.arrow")) for name in ("one", "same", "other"))
    assert one == same != other


def made(i, **changes):
    return changes.get(f"client_{i}", (np.ones((2, 3)), np.ones(2)))


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ((np.ones((0, 3)), np.ones(0)), "client 500 has no rows"),
        ((np.ones((2, 4)), np.ones(2)), "client 500 has features of shape"),
        ((np.full((2, 3), np.nan), np.ones(2)), "client 500: row 1 has a feature that is NaN"),
        ((np.ones((2, 3)), np.ones(3)), "labels have shape"),
        ((np.ones((2, 3)), np.array(["a", "b"])), "labels of a client file are numbers"),
    ],
)
def test_a_wrong_client_is_told_and_leaves_no_file(tmp_path, client, words):
    with pytest.raises(UserError, match=words):
        write_clients(tmp_path / "clients.arrow", lambda i: made(i, client_500=client), clients=1000)
    assert not [*tmp_path.iterdir()]


def test_what_cannot_be_written_is_told(tmp_path):
    with pytest.raises(UserError, match="give clients"):
        write_clients(tmp_path / "a.arrow", rows_of)
    with pytest.raises(UserError, match="give a folder that exists"):
        write_clients(tmp_path / "nowhere" / "a.arrow", rows_of, clients=3)
    with pytest.raises(UserError, match="no column 'user'"):
        pl.DataFrame({"a": [1.0], "label": [1]}).write_parquet(tmp_path / "t.parquet")
        write_clients(tmp_path / "a.arrow", tmp_path / "t.parquet", client="user")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_file_that_is_cut_off_is_told(tmp_path, share):
    write_clients(tmp_path / "clients.arrow", rows_of, clients=20)
    content = (tmp_path / "clients.arrow").read_bytes()
    (tmp_path / "cut.arrow").write_bytes(content[: int(share * len(content))])
    with pytest.raises(UserError, match="cut off|is empty"):
        load(tmp_path / "cut.arrow")


@pytest.mark.slow
def test_a_file_that_is_cut_off_during_a_run_is_told(tmp_path, monkeypatch):
    # A column that is not held in memory.
    monkeypatch.setattr("turnout.data.client_file.HELD", 0)
    path = tmp_path / "clients.arrow"
    write_clients(path, rows_of, clients=20)
    stored = load(path)
    problem = t.Logistic.of(stored, NaturalSplit().split(stored), mu=0.1)
    with path.open("r+b") as file:
        file.truncate(300)
    with pytest.raises(UserError, match="cannot be read: write the file again"):
        t.run(t.FedAvg(t.Nice(15), lr=0.1), problem, rounds=3)


def test_a_client_without_rows_is_told(tmp_path):
    import pyarrow as pa

    write_clients(tmp_path / "clients.arrow", rows_of, clients=9)
    with pa.ipc.open_file(str(tmp_path / "clients.arrow")) as file:
        batch, facts = file.get_batch_with_custom_metadata(0)
        schema = file.schema
    lists = [batch.column(name).to_pylist() for name in ("features", "labels")]
    for values in lists:
        values[4] = []
    with pa.ipc.new_file(str(tmp_path / "other.arrow"), schema) as file:
        arrays = [pa.array(values, type=field.type) for values, field in zip(lists, schema, strict=True)]
        file.write_batch(pa.record_batch(arrays, schema=schema), custom_metadata=facts)
    with pytest.raises(UserError, match="client 4 has no rows"):
        load(tmp_path / "other.arrow")


def test_other_arrow_files_are_told(tmp_path):
    pl.DataFrame({"a": [1.0]}).write_ipc(tmp_path / "other.arrow")
    with pytest.raises(UserError, match="no client file of this version"):
        load(tmp_path / "other.arrow")


def test_a_function_that_makes_other_rows_is_told():
    for wrong, words in (
        (lambda i: (np.ones((3 if i == 7 else 2, 1)), np.ones(3 if i == 7 else 2)), "client 7 is to have 2 rows"),
        (lambda i: (np.ones((2, 1)), np.full(2, 5 if i == 107 else i % 2)), "name all of them as classes"),
    ):
        data = made_clients(wrong, 110)
        with pytest.raises(UserError, match=words):
            np.asarray(data.features)
