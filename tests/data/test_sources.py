"""Data in LEAF's, TFF's and other files: what is read, and what is refused."""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import issparse

from turnout.core.errors import UserError
from turnout.data import Hdf5, HuggingFace, Leaf, NaturalSplit, Parquet, Tff, load
from turnout.data.ag_news import read_ag_news
from turnout.data.arrays import features_of
from turnout.data.columns import WORDS

h5py = pytest.importorskip("h5py")

GENERATOR = np.random.default_rng(5)
IMAGES = GENERATOR.integers(256, size=(5, 28, 28)).astype(np.uint8)
LABELS = np.array([3, 0, 9, 3, 61])
WRITERS = ["f02", "f01", "f02", "f03", "f02"]


def users(images=IMAGES, labels=LABELS, writers=WRITERS) -> dict:
    """The content of a file of LEAF."""
    content = {}
    for image, label, writer in zip(images, labels.tolist(), writers, strict=True):
        user = content.setdefault(writer, {"x": [], "y": []})
        user["x"].append((image.ravel() / 255).tolist())
        user["y"].append(label)
    return {"users": list(content), "num_samples": [len(user["y"]) for user in content.values()], "user_data": content}


def federated(path, images=IMAGES, labels=LABELS, writers=WRITERS, dtype=np.float32):
    """Write a file of TFF."""
    with h5py.File(path, "w") as file:
        for writer in sorted(set(writers)):
            rows = np.array(writers) == writer
            file[f"examples/{writer}/pixels"] = (images[rows] / 255).astype(dtype)
            file[f"examples/{writer}/label"] = labels[rows].astype(np.int32)
    return str(path)


def by_writer(data) -> dict:
    """Each writer's images and labels, in any order of the writers."""
    clients = {}
    for rows in (NaturalSplit().split(data).rows(client) for client in range(np.unique(data.ids).size)):
        clients[data.ids[rows[0]].item()] = (data.features[rows].tolist(), data.labels[rows].tolist())
    return clients


EXPECTED = {
    writer: ([IMAGES[k].tolist() for k in rows], LABELS[rows].tolist())
    for writer, rows in (("f01", [1]), ("f02", [0, 2, 4]), ("f03", [3]))
}


def test_leaf_gives_each_users_images(tmp_path):
    (tmp_path / "b.json").write_text(json.dumps(users(IMAGES[:3], LABELS[:3], WRITERS[:3])))
    (tmp_path / "a.json").write_text(json.dumps(users(IMAGES[3:], LABELS[3:], WRITERS[3:])))
    (tmp_path / "a.txt").write_text("something else")
    data = Leaf(str(tmp_path)).load()
    clients = by_writer(data)
    # Files come in the order of their names, so that f02's last image is first.
    images, labels = EXPECTED["f02"]
    assert clients == EXPECTED | {"f02": (images[-1:] + images[:-1], labels[-1:] + labels[:-1])}
    assert data.features.dtype == np.uint8 and data.labels.dtype == np.int64
    assert by_writer(Leaf(str(tmp_path / "b.json")).load())["f01"] == EXPECTED["f01"]


def test_leaf_with_other_rows_gives_numbers(tmp_path):
    content = {"users": ["u", "v", "w"], "user_data": {"u": {"x": [[1, 2.5]], "y": [1]}, "v": {"x": [[3, 4]], "y": [0.0]}}}
    content["user_data"]["w"] = {"x": [], "y": []}
    (tmp_path / "only.json").write_text(json.dumps(content))
    data = Leaf("only.json").load(tmp_path)
    assert data.features.tolist() == [[1, 2.5], [3, 4]] and data.labels.tolist() == [1, 0] and data.ids.tolist() == ["u", "v"]


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "not json"),
        ("[]", "not a file of LEAF"),
        ('{"users": ["u"]}', "not a file of LEAF.*user_data"),
        ('{"users": ["u"], "user_data": {}}', "not a file of LEAF.*'u'"),
        ('{"users": ["u"], "user_data": {"u": {"x": [[1], [2]], "y": [1]}}}', "user u has 2 x but 1 y"),
        ('{"users": ["u"], "user_data": {"u": {"x": [[1]], "y": [1.5]}}}', "y of user u holds 1.5.*whole number"),
        ('{"users": ["u"], "user_data": {"u": {"x": [[1]], "y": ["a"]}}}', "y of user u holds text"),
        ('{"users": ["u"], "user_data": {"u": {"x": ["to be"], "y": [1]}}}', "x of user u holds text"),
        ('{"users": ["u"], "user_data": {"u": {"x": [[1], [2, 3]], "y": [1, 1]}}}', "rows of different lengths"),
        ('{"users": ["u"], "user_data": {"u": {"x": [[NaN]], "y": [1]}}}', "row 1 has a feature that is NaN"),
        ('{"users": ["u"], "user_data": {"u": {"x": [], "y": []}}}', "no user has any rows"),
        ('{"users": 3, "user_data": {}}', "not a file of LEAF"),
        ('{"users": ["u"], "user_data": {"u": {"x": 1, "y": [1]}}}', "not a file of LEAF"),
    ],
)
def test_a_file_that_is_not_leafs_is_a_user_error(tmp_path, content, message):
    (tmp_path / "wrong.json").write_text(content)
    with pytest.raises(UserError, match=message):
        Leaf(str(tmp_path)).load()


def test_users_with_rows_of_other_lengths_are_refused(tmp_path):
    content = {"users": ["u", "v"], "user_data": {"u": {"x": [[1]], "y": [1]}, "v": {"x": [[1, 2]], "y": [1]}}}
    (tmp_path / "wrong.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="clients have rows of different lengths"):
        Leaf(str(tmp_path)).load()


def test_pixels_beyond_one_are_refused(tmp_path):
    (tmp_path / "wrong.json").write_text(json.dumps({"users": ["u"], "user_data": {"u": {"x": [[2.0] * 784], "y": [1]}}}))
    with pytest.raises(UserError, match="x of user u has a pixel that is not from 0 to 1"):
        Leaf(str(tmp_path)).load()


def test_a_folder_without_json_and_an_absent_one_are_user_errors(tmp_path):
    with pytest.raises(UserError, match="holds no json files"):
        Leaf(str(tmp_path)).load()
    with pytest.raises(UserError, match="there is no such file or folder"):
        Leaf("absent").load(tmp_path)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tff_gives_each_writers_images(tmp_path, dtype):
    data = Tff(federated(tmp_path / "fed_emnist_train.h5", dtype=dtype)).load()
    assert by_writer(data) == EXPECTED and data.features.dtype == np.uint8


def test_a_writer_without_images_is_left_out(tmp_path):
    path = federated(tmp_path / "made.h5")
    with h5py.File(path, "a") as file:
        file["examples/f04/pixels"], file["examples/f04/label"] = np.zeros((0, 28, 28)), np.zeros(0, int)
    assert by_writer(Tff(path).load()) == EXPECTED


def test_a_file_that_is_not_tffs_is_a_user_error(tmp_path):
    path = tmp_path / "wrong.h5"
    path.write_text("no HDF5")
    with pytest.raises(UserError, match="not an HDF5 file"):
        Tff(str(path)).load()
    for wrong, message in (
        ({"other": np.zeros(3)}, "there is no 'examples', only other"),
        ({"examples/f/pixels": np.zeros((2, 28, 28))}, "there is no 'label' in examples/f, only pixels"),
        ({"examples/f/pixels": np.zeros((2, 28, 28)), "examples/f/label": np.zeros(3, int)}, "pixels of shape .* labels of"),
        ({"examples/f/pixels": np.zeros((2, 9, 9)), "examples/f/label": np.zeros(2, int)}, "give images of 28 x 28"),
        ({"examples/f/pixels": np.full((1, 28, 28), np.nan), "examples/f/label": np.zeros(1, int)}, "not from 0 to 1"),
        ({"examples/f/pixels": np.zeros((1, 28, 28)), "examples/f/label": np.array([0.5])}, "holds 0.5, but a label"),
        ({"examples/f/pixels": np.zeros((0, 28, 28)), "examples/f/label": np.zeros(0, int)}, "'examples' has no images"),
    ):
        with h5py.File(path, "w") as file:
            for name, array in wrong.items():
                file[name] = array
        with pytest.raises(UserError, match=message):
            Tff(str(path)).load()


def test_hdf5_with_arrays_of_ones_own(tmp_path):
    path = str(tmp_path / "mine.h5")
    with h5py.File(path, "w") as file:
        file["images"], file["train/y"], file["user"] = IMAGES, LABELS[:, None], np.array(WRITERS, dtype="S3")
        file["features"], file["label"] = np.arange(10.0).reshape(5, 2), LABELS / 2
    assert by_writer(Hdf5(path, "images", "train/y", "user").load()) == EXPECTED
    plain = Hdf5(path).load()
    assert plain.features.tolist() == np.arange(10.0).reshape(5, 2).tolist() and plain.ids is None
    assert plain.labels.tolist() == (LABELS / 2).tolist()
    with pytest.raises(UserError, match="there is no 'writer', only features, images, label, train, user"):
        Hdf5(path, client="writer").load()
    with pytest.raises(UserError, match="'train' is a group, with y in it"):
        Hdf5(path, label="train").load()
    with pytest.raises(UserError, match="'label' holds fractions, but a client"):
        Hdf5(path, client="label").load()


TABLE = pl.DataFrame(
    {
        "a": [1.0, 2.0, 3.0],
        "b": [True, False, True],
        "list": [[1, 2], [3, 4], [5, 6]],
        "text": ["red blue", "Blue", "green"],
        "label": pl.Series([2, 0, 2], dtype=pl.Int8),
        "user": ["x", "y", "x"],
        "ragged": [[1], [2, 3], []],
        "gaps": [1.0, None, 2.0],
        "someone": ["x", None, "y"],
        "day": pl.Series([1, 2, 3], dtype=pl.Int32).cast(pl.Date),
    }
).with_columns(group=pl.col("user").cast(pl.Categorical))


@pytest.fixture
def table(tmp_path):
    TABLE.write_parquet(tmp_path / "mine.parquet")
    return str(tmp_path / "mine.parquet")


def test_parquet_with_columns_of_ones_own(table):
    data = Parquet(table, ["a", "b", "list"], client="user").load()
    assert data.features.tolist() == [[1, 1, 1, 2], [2, 0, 3, 4], [3, 1, 5, 6]] and data.name == "mine.parquet"
    assert data.labels.tolist() == [2, 0, 2] and data.ids.tolist() == ["x", "y", "x"]
    cubes = pl.DataFrame({"cube": np.ones((3, 2, 2)), "a": [0.0, 1.0, 2.0], "label": [0, 1, 2]})
    cubes.write_parquet(table)
    assert Parquet(table).load().features.tolist() == [[1, 1, 1, 1, a] for a in range(3)]
    TABLE.write_parquet(table)
    assert Parquet(table, ["list"], client="group").load().ids.tolist() == ["x", "y", "x"]
    assert Parquet(table, ["a"], "a").load().labels.tolist() == [1, 2, 3]


def test_all_other_columns_are_features(tmp_path):
    TABLE.select("user", "a", "label", "b").write_parquet(tmp_path / "small.parquet")
    assert Parquet("small.parquet", client="user").load(tmp_path).features.tolist() == [[1, 1], [2, 0], [3, 1]]


def test_images_in_parquet_stay_bytes(tmp_path):
    pl.DataFrame({"image": IMAGES, "label": LABELS, "user": WRITERS}).write_parquet(tmp_path / "images.parquet")
    assert by_writer(Parquet("images.parquet", client="user").load(tmp_path)) == EXPECTED


def test_text_is_hashed_by_its_words(table):
    features = Parquet(table, ["text"]).load().features
    assert issparse(features) and features.shape == (3, WORDS)
    inner = (features @ features.T).toarray()
    np.testing.assert_allclose(inner, [[1, np.sqrt(0.5), 0], [np.sqrt(0.5), 1, 0], [0, 0, 1]], atol=1e-15)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"client": "writer"}, "no column 'writer', only a, b, day, gaps, .*: name one"),
        ({"label": "y"}, "no column 'y'"),
        ({"features": ["a", "z"]}, "no column 'z'"),
        ({"features": []}, "no column beside label"),
        ({"features": ["ragged"]}, "'ragged' has rows of different lengths"),
        ({"features": ["gaps"]}, "row 2 lacks a value in column 'gaps': say missing = 'mean'"),
        ({"features": ["someone"]}, "lacks a value in column 'someone': say missing = 'mean'"),
        ({"features": ["day"]}, "column 'day' holds dates: say dates = 'days'"),
        ({"features": ["a"], "label": "gaps"}, "row 2 lacks a value in column 'gaps': say missing = 'drop'"),
        ({"features": ["a"], "client": "someone"}, "lacks a value in column 'someone': fill it in"),
        ({"features": ["a"], "client": "gaps"}, "row 2 lacks a value in column 'gaps': fill it in"),
    ],
)
def test_columns_that_do_not_fit_are_user_errors(table, options, message):
    with pytest.raises(UserError, match=message):
        Parquet(table, **options).load()


def test_what_is_no_parquet_is_a_user_error(tmp_path):
    (tmp_path / "wrong.parquet").write_text("text")
    with pytest.raises(UserError, match="not a parquet file"):
        Parquet("wrong.parquet").load(tmp_path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    # Slow to import.
    datasets, image = pytest.importorskip("datasets"), pytest.importorskip("PIL.Image")
    datasets.disable_progress_bars()
    folder = tmp_path_factory.mktemp("saved")
    features = datasets.Features(
        {
            "image": datasets.Array2D((28, 28), "uint8"),
            "picture": datasets.Image(),
            "words": datasets.Value("string"),
            "label": datasets.ClassLabel(num_classes=62),
            "writer": datasets.Value("string"),
        }
    )
    pictures = [image.fromarray(pixels) for pixels in IMAGES]
    columns = {
        "image": IMAGES,
        "picture": pictures,
        "words": ["red", "blue", "red", "green", "blue"],
        "label": LABELS,
        "writer": WRITERS,
    }
    whole = datasets.Dataset.from_dict(columns, features=features)
    whole.save_to_disk(folder / "whole")
    datasets.DatasetDict(train=whole, test=whole.select([1])).save_to_disk(folder / "parts")
    return folder


def test_a_data_set_of_hugging_face_on_disk(saved):
    assert by_writer(HuggingFace("whole", features=["image"], client="writer").load(saved)) == EXPECTED
    assert by_writer(HuggingFace("parts", features=["image"], client="writer").load(saved)) == EXPECTED
    test = HuggingFace(str(saved / "parts"), "test", features=["image"]).load()
    assert test.features.tolist() == IMAGES[[1]].tolist() and test.ids is None
    assert by_writer(HuggingFace("whole", features=["picture"], client="writer").load(saved)) == EXPECTED
    words = HuggingFace("whole", features=["words"]).load(saved).features.toarray()
    assert np.array_equal(words[0], words[2]) and np.array_equal(words[1], words[4]) and not np.array_equal(words[0], words[1])


def test_labels_of_hugging_face_go_by_their_names(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"a": datasets.Value("float64"), "label": datasets.ClassLabel(names=["wolf", "dog", "cat"])})
    table = datasets.Dataset.from_dict({"a": [0.0, 1.0, 2.0], "label": [2, 0, 0]}, features=features)
    table.save_to_disk(tmp_path / "saved")
    for data in (HuggingFace("saved").load(tmp_path), load(table, label="label")):
        assert data.labels.tolist() == ["cat", "wolf", "wolf"] and data.classes.tolist() == ["cat", "wolf"]
    test = datasets.Dataset.from_dict({"a": [0.0], "label": [-1]}, features=features)
    with pytest.raises(UserError, match="row 1 has the label -1 in column 'label', which stands for none"):
        load(test, label="label")


def test_what_is_not_hugging_faces_is_a_user_error(saved):
    with pytest.raises(UserError, match="not a data set that save_to_disk wrote"):
        HuggingFace(str(saved)).load()
    with pytest.raises(UserError, match="no part 'dev', only train, test"):
        HuggingFace("parts", "dev").load(saved)
    with pytest.raises(UserError, match="no column 'user', only image, label, picture, words, writer"):
        HuggingFace("whole", client="user").load(saved)


@pytest.mark.parametrize(
    "module, source, extra",
    [("h5py", Tff, "data"), ("h5py", Hdf5, "data"), ("datasets", HuggingFace, "hugging-face")],
    ids=["tff", "hdf5", "hugging-face"],
)
def test_a_missing_extra_names_the_command(tmp_path, monkeypatch, module, source, extra):
    (tmp_path / "some.h5").write_text("")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=rf"needs {module} .*pip install 'turnout\[{extra}\]'"):
        source(str(tmp_path / "some.h5")).load()


@pytest.mark.parametrize("name", ["mine.h5", "mine.json", "mine.npz"])
def test_a_path_of_another_format_says_how_to_name_it(name):
    with pytest.raises(UserError, match=f"{name} is no LIBSVM text: write data as a table"):
        load(name)


def test_paths_are_looked_up_in_the_folder_and_in_the_environment(tmp_path, monkeypatch):
    for place in ("argument", "environment"):
        (tmp_path / place).mkdir()
        TABLE.select("a", "label").write_parquet(tmp_path / place / "mine.parquet")
    TABLE.select("a", "label")[:1].write_parquet(tmp_path / "argument" / "mine.parquet")
    monkeypatch.setenv("TURNOUT_DATA", str(tmp_path / "environment"))
    monkeypatch.chdir(tmp_path)
    assert load(Parquet("mine.parquet")).rows == 3
    assert load(Parquet("mine.parquet"), tmp_path / "argument").rows == 1
    assert load(Parquet("argument/mine.parquet")).rows == 1


SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
NUMBERS = st.sampled_from([np.uint8, np.int64, np.float32, np.float64])


@given(NUMBERS.flatmap(lambda dtype: arrays(dtype, SHAPES, elements={"allow_nan": False})), st.booleans())
@settings(max_examples=80)
def test_any_array_of_numbers_gives_rows_or_images_with_its_numbers(array, scaled):
    image = array.ndim > 2 and array.dtype == np.uint8
    if scaled and image:
        array = array / 255
    result = features_of(array, Path("file"), "x")
    assert len(result) == len(array)
    if result.ndim > 2:
        assert result.dtype == np.uint8 and result.shape == array.shape
        np.testing.assert_allclose(result / (1 if array.dtype.kind in "iu" else 255), array, atol=1e-6)
    else:
        assert not image
        np.testing.assert_array_equal(result.ravel(), array.ravel())


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 300), st.floats(), st.sampled_from(["u", "x", ""])),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.longer
@given(st.dictionaries(st.sampled_from(["u", "v"]), st.fixed_dictionaries({"x": JSON, "y": JSON}), max_size=2) | JSON)
@settings(max_examples=200)
def test_any_users_give_data_or_a_user_error(scratch, users):
    (scratch / "any.json").write_text(
        json.dumps({"users": list(users) if isinstance(users, dict) else users, "user_data": users})
    )
    try:
        data = Leaf(str(scratch / "any.json")).load()
    except UserError:
        return
    assert data.rows == data.ids.size == data.labels.size > 0


KINDS = st.sampled_from([st.booleans(), st.integers(-(2**40), 2**40), st.floats(), st.text(max_size=2), st.lists(st.floats())])
CELLS = st.one_of(st.none(), KINDS.flatmap(lambda kind: kind))


COLUMN = st.one_of(st.lists(CELLS, min_size=4, max_size=4), KINDS.flatmap(lambda kind: st.lists(kind, min_size=4, max_size=4)))


@pytest.mark.longer
@given(st.fixed_dictionaries({name: COLUMN for name in ("x", "label", "client")}))
@settings(max_examples=150)
def test_any_table_gives_data_or_a_user_error(scratch, columns):
    table = pl.DataFrame({name: pl.Series(name, values, strict=False) for name, values in columns.items()})
    try:
        table.write_parquet(scratch / "any.parquet")
    except pl.exceptions.PolarsError:
        return
    try:
        data = Parquet("any.parquet", client="client").load(scratch)
    except UserError:
        return
    assert data.rows == 4 and NaturalSplit().split(data).sizes.sum() == 4


@given(st.binary(max_size=60), st.sampled_from(["wrong.parquet", "wrong.h5", "wrong.json", "wrong.csv"]))
@settings(max_examples=80)
def test_any_bytes_are_a_user_error(scratch, content, name):
    path = scratch / name
    path.write_bytes(content)
    read = {".parquet": Parquet, ".h5": Tff, ".json": Leaf}.get(path.suffix)
    with pytest.raises(UserError, match=name):
        read_ag_news(path) if read is None else read(str(path)).load()
