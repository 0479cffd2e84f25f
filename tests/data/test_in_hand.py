"""Data that a program holds already are the same data set whatever holds them."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import turnout as t
from tests.helpers.borders import border
from turnout.core.errors import UserError
from turnout.data import Csv, Dataset, NaturalSplit, load

TABLE = {"age": [30.0, 41.0, 25.5], "visits": [1, 5, 2], "bought": [0, 1, 1], "user": ["ann", "bob", "ann"]}
FEATURES = np.array([[30.0, 1.0], [41.0, 5.0], [25.5, 2.0]])
COLUMNS = {"label": "bought", "client": "user"}


def is_expected(data: Dataset) -> bool:
    same = [
        np.array_equal(data.features, FEATURES),
        np.array_equal(data.labels, TABLE["bought"]),
        data.ids.tolist() == TABLE["user"],
    ]
    return all(same)


def csv_file(folder, separator=","):
    pl.DataFrame(TABLE).write_csv(folder / "visits.csv", separator=separator)
    return folder / "visits.csv"


def test_frames_columns_and_arrays_are_one_data_set(tmp_path):
    assert is_expected(load(pl.DataFrame(TABLE), **COLUMNS))
    assert is_expected(load(pl.LazyFrame(TABLE), **COLUMNS))
    assert is_expected(load(TABLE, **COLUMNS))
    assert is_expected(load((FEATURES, TABLE["bought"], TABLE["user"])))
    assert is_expected(load(csv_file(tmp_path), **COLUMNS))
    assert is_expected(load(Csv("visits.csv", None, "bought", "user", ";"), csv_file(tmp_path, ";").parent))
    pl.DataFrame(TABLE).write_parquet(tmp_path / "visits.parquet")
    assert is_expected(load(tmp_path / "visits.parquet", **COLUMNS))
    assert load(TABLE, label="bought", features=["age"]).features.tolist() == [[30.0], [41.0], [25.5]]
    sparse = load((csr_array(FEATURES), TABLE["bought"]))
    np.testing.assert_array_equal(sparse.features.toarray(), FEATURES)


def test_pandas_frames():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert is_expected(load(pandas.DataFrame(TABLE), **COLUMNS))
    assert is_expected(load(pandas.DataFrame(TABLE).astype({"user": "category"}), **COLUMNS))


@pytest.mark.longer
def test_data_sets_of_hugging_face():
    datasets = pytest.importorskip("datasets", reason="datasets is not installed: pip install 'turnout[hugging-face]'")
    assert is_expected(load(datasets.Dataset.from_dict(TABLE), **COLUMNS))


def test_data_sets_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'turnout[torch]'")
    rows = torch.utils.data.TensorDataset(torch.tensor(FEATURES), torch.tensor(TABLE["bought"]))
    data = load(rows)
    np.testing.assert_array_equal(data.features, FEATURES)
    assert data.labels.tolist() == TABLE["bought"]
    bytes_ = np.random.default_rng(0).integers(256, size=(4, 3, 5, 6)).astype(np.uint8)
    for channels in (1, 3):
        images = load(torch.utils.data.TensorDataset(torch.tensor(bytes_[:, :channels] / 255), torch.arange(4)))
        expected = np.moveaxis(bytes_[:, :channels], 1, -1)
        np.testing.assert_array_equal(images.features, expected[..., 0] if channels == 1 else expected)


@pytest.mark.longer
def test_a_frame_trains_a_model_of_its_clients():
    data = load(pl.DataFrame(TABLE), **COLUMNS)
    problem = t.Logistic.of(data, NaturalSplit().split(data), mu=0.1)
    assert problem.clients == 2
    assert t.run(t.FedAvg(t.Full(), lr=1e-3), problem, rounds=2).columns["value"].shape == (3,)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(-5, 5)), min_size=1, max_size=8))
def test_no_row_is_lost_or_changed(rows):
    features, labels = (np.array(column) for column in zip(*rows, strict=True))
    one, other = load((features, labels)), load(pl.DataFrame({"x": features, "label": labels}))
    for data in (one, other):
        np.testing.assert_array_equal(data.features, features[:, None])
        np.testing.assert_array_equal(data.labels, labels)


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        (TABLE, {}, "no column 'label', only age, bought, user, visits"),
        (TABLE, {"label": "bought", "missing": "guess"}, "missing must be 'refuse', 'drop', 'mean' or 'most frequent'"),
        (TABLE, {"label": "bought", "mising": "mean"}, "did you mean 'missing'"),
        ((FEATURES, TABLE["bought"][:2]), {}, "labels have shape"),
        ((FEATURES,), {}, "1 arrays: give features and labels"),
        ((FEATURES, [0, 1, np.nan]), {}, "label that is NaN"),
        ({"a": [1, "x", 2], "label": [0, 1, 1]}, {}, "column 'a' holds values of several kinds"),
        ({"a": [None, None], "label": [0, 1]}, {"missing": "mean"}, "column 'a' holds no value at all"),
        (3, {}, "a int is no data: give a name, a path, arrays"),
        ("breast_cancer", {"label": "bought"}, "has no columns to choose"),
        (Csv("visits.csv", separator=", "), {}, "not one ASCII character"),
    ],
)
def test_what_is_no_data_is_one_sentence(source, options, words):
    with pytest.raises(UserError, match=words) as error:
        load(source, **options)
    assert "\n" not in str(error.value)


TEXTS, BYTES = st.sampled_from(["1", "a", "é", "01", "a\0"]), st.sampled_from([b"1", b"a", b"\xff", b"a\0"])
NUMBERS = st.one_of(st.integers(0, 3), st.integers(-(2**63), 2**64 - 1))


@border(clients=st.one_of(*(st.lists(one, min_size=1, max_size=5) for one in (TEXTS, BYTES, NUMBERS, TEXTS | BYTES | NUMBERS))))
def test_clients_that_differ_stay_different(clients):
    """Names are compared as what they are: 1 and "1" are not made one, nor are bytes that are no text."""
    kinds = {type(client) for client in clients}
    try:
        data = load((np.zeros((len(clients), 1)), np.zeros(len(clients)), clients))
    except UserError:
        beyond = kinds == {int} and max(clients) >= 2**63
        assert len(kinds) > 1 or {b"\xff", b"a\0", "a\0"} & {*clients} or beyond
        return
    assert len(kinds) == 1
    assert data.ids.tolist() == [client.decode() if isinstance(client, bytes) else client for client in clients]


@border(names=st.lists(st.one_of(st.integers(0, 3), st.sampled_from(["0", "1", "a"])), min_size=1, max_size=4))
def test_columns_of_pandas_that_differ_stay_different(names):
    """1 and "1" are two columns; the same name twice is refused."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame([[*map(float, range(len(names))), 1.0]], columns=[*names, "label"])
    if len({*names}) < len(names):
        with pytest.raises(UserError, match="two columns are called"):
            load(frame)
        return
    data = load(frame)
    assert data.columns == tuple(names) and data.features.tolist() == [[*map(float, range(len(names)))]]
    # A column that is called by a number is found by its text too, where no other has that name.
    (value,) = load(frame, features=[str(names[0])]).features[0]
    assert value == (names.index(str(names[0])) if str(names[0]) in names else 0)
