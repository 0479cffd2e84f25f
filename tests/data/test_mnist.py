"""Reading MNIST: idx files, and the writers of the images."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from turnout.core.errors import UserError
from turnout.data import NaturalSplit, load
from turnout.data.mnist import WRITERS, mnist_files, read_idx, read_mnist


def idx(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
    return header + values.astype(np.uint8).tobytes()


IMAGES = np.arange(4 * 3 * 2).reshape(4, 3, 2) * 10
LABELS = np.array([7, 0, 9, 7])


@pytest.fixture
def folder(tmp_path):
    for file, values in zip(mnist_files("mnist"), (IMAGES, LABELS), strict=True):
        (tmp_path / file).write_bytes(gzip.compress(idx(values)))
    return tmp_path


def writers(folder, labels=LABELS, **others):
    np.savez(folder / WRITERS, train_writer=np.array([5, 5, 3, 5]), train_label=labels, **others)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("idx") / "made.gz"


@given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=4, max_side=5)))
@settings(max_examples=40)
def test_idx_comes_back_equal(scratch, values):
    scratch.write_bytes(gzip.compress(idx(values)))
    assert np.array_equal(read_idx(scratch), values)


@given(arrays(np.uint8, array_shapes(max_dims=3, max_side=4)), st.data())
@settings(max_examples=60)
def test_idx_cut_short_or_too_long_is_a_user_error(scratch, values, data):
    content = idx(values)
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    for wrong in (cut, content + b"\0"):
        scratch.write_bytes(gzip.compress(wrong))
        with pytest.raises(UserError, match="fetch or copy it again"):
            read_idx(scratch)


@given(st.binary(max_size=40), st.booleans())
@settings(max_examples=100)
def test_any_bytes_give_an_array_or_a_user_error(scratch, content, compressed):
    scratch.write_bytes(gzip.compress(content) if compressed else content)
    try:
        assert read_idx(scratch).dtype == np.uint8
    except UserError as error:
        assert str(scratch) in str(error)


def test_a_missing_idx_file_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="there is no such file"):
        read_idx(tmp_path / "absent.gz")


def test_features_are_images_as_bytes(folder):
    data = read_mnist("mnist", folder)
    assert data.features.dtype == np.uint8 and data.ids is None
    assert np.array_equal(data.features, IMAGES)
    assert np.array_equal(data.labels, LABELS)


def test_images_and_labels_must_belong_together(folder):
    (folder / mnist_files("mnist")[1]).write_bytes(gzip.compress(idx(LABELS[:3])))
    with pytest.raises(UserError, match=r"shape \(4, 3, 2\).*shape \(3,\).*same set"):
        read_mnist("mnist", folder)


def test_writers_are_the_natural_clients(folder):
    writers(folder)
    data = read_mnist("mnist", folder)
    assert data.ids.tolist() == [5, 5, 3, 5]
    assert NaturalSplit().split(data).sizes.tolist() == [1, 3]


def test_writers_of_other_images_are_refused(folder):
    writers(folder, labels=LABELS[::-1])
    with pytest.raises(UserError, match="train_label differ from the labels of mnist"):
        read_mnist("mnist", folder)


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04 broken"])
def test_an_unreadable_file_of_writers_is_a_user_error(folder, content):
    (folder / WRITERS).write_bytes(content)
    with pytest.raises(UserError, match="copy it again, or do without it"):
        read_mnist("mnist", folder)


def test_a_file_without_writers_or_of_one_array_is_a_user_error(folder):
    np.savez(folder / WRITERS, something=np.zeros(3))
    with pytest.raises(UserError, match="train_writer"):
        read_mnist("mnist", folder)
    with (folder / WRITERS).open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(UserError, match="cannot be read"):
        read_mnist("mnist", folder)


def test_the_real_test_set_splits_by_writer(real_data):
    if not (real_data / WRITERS).exists() or not (real_data / mnist_files("mnist.t")[0]).exists():
        pytest.skip("MNIST with its writers is not in the folder of the real data sets")
    data = load("mnist.t", real_data)
    split = NaturalSplit().split(data)
    assert split.clients == np.unique(data.ids).size > 1
    assert all(np.unique(data.ids[split.rows(client)]).size == 1 for client in range(split.clients))
    assert data.features.min() == 0 and data.features.max() == 255
