"""The known data sets: looking them up, and loading the real ones."""

import lzma

import numpy as np
import pytest
from scipy.sparse import issparse

from turnout.core.errors import UserError
from turnout.data import CATALOGUE, load, present
from turnout.data.ag_news import AG_NEWS
from turnout.data.dataset import checksum

BUNDLED = [name for name, entry in CATALOGUE.items() if entry.bundled]
FILES = sorted(name for name, entry in CATALOGUE.items() if not (entry.bundled or entry.generated or "-minilm" in name))


@pytest.fixture(autouse=True)
def no_data_folder(request, monkeypatch):
    if "real_data" not in request.fixturenames:
        monkeypatch.delenv("TURNOUT_DATA", raising=False)


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_sets_need_no_file(name):
    entry, data = CATALOGUE[name], load(name)
    assert data.name == name and data.features.shape == (entry.rows, entry.features)
    if entry.classes is not None:
        assert np.unique(data.labels).size == entry.classes
    assert entry.origin == "scikit-learn"


@pytest.mark.tiers(quick=["a6a", "ag_news"], longer=["duke"])
@pytest.mark.parametrize("name", FILES)
def test_real_sets_are_what_the_catalogue_says(real_data, name):
    if present(name, real_data) is None:
        pytest.skip(f"{name} is not in the folder of the real data sets")
    entry, data = CATALOGUE[name], load(name, real_data)
    assert data.name == name and (data.rows, data.width) == (entry.rows, entry.features)
    assert np.unique(data.labels).size == entry.classes
    assert entry.checksum in (None, checksum(data))
    assert issparse(data.features) == (entry.remote is not None or name in AG_NEWS)


def test_the_folder_of_the_argument_comes_before_that_of_the_environment(tmp_path, monkeypatch):
    for place in ("argument", "environment"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "a6a").write_text("1 1:1\n")
    monkeypatch.setenv("TURNOUT_DATA", str(tmp_path / "environment"))
    assert present("a6a") == tmp_path / "environment" / "a6a"
    assert present("a6a", tmp_path / "argument") == tmp_path / "argument" / "a6a"
    assert present("a6a", tmp_path) == tmp_path / "environment" / "a6a"
    assert present("a9a") is None


@pytest.mark.parametrize("ending", ["", ".xz", ".bz2", ".gz"])
def test_a_known_set_is_found_in_every_compression(tmp_path, ending):
    (tmp_path / f"a6a.t{ending}").write_bytes(b"")
    assert present("a6a.t", tmp_path) == tmp_path / f"a6a.t{ending}"
    assert present("a6a", tmp_path) is None


def test_mnist_is_present_with_images_and_labels_only(tmp_path):
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"")
    assert present("mnist", tmp_path) is None
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(b"")
    assert present("mnist", tmp_path) == tmp_path / "train-images-idx3-ubyte.gz"


def test_any_path_is_read_as_libsvm(tmp_path):
    path = tmp_path / "mine.xz"
    path.write_bytes(lzma.compress(b"2 1:1 4:0.5\n"))
    for given in (path, str(path)):
        data = load(given)
        assert data.name == "mine" and data.features.toarray().tolist() == [[1, 0, 0, 0.5]]


def test_a_file_of_another_shape_is_not_the_known_set(tmp_path):
    (tmp_path / "a6a").write_text("1 1:1\n")
    with pytest.raises(UserError, match="1 rows and 122 features, but a6a has 11220 and 122: replace the file"):
        load("a6a", tmp_path)


def test_an_absent_known_set_tells_how_to_get_it(tmp_path):
    with pytest.raises(UserError, match="turnout data fetch a6a.*TURNOUT_DATA"):
        load("a6a", tmp_path)
    with pytest.raises(UserError, match="put train-images.* and train-labels.* into"):
        load("mnist", tmp_path)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UserError, match="'mushroms': did you mean 'mushrooms'"):
        load("mushroms")
    with pytest.raises(UserError, match="'a6b'"):
        present("a6b")


@pytest.mark.parametrize("name", ["no/such/file", "a\0b", "x" * 5000, "."])
def test_odd_names_are_user_errors(name):
    with pytest.raises(UserError):
        load(name)
