"""Data sets: their checks, their scalings, their checksums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import coo_array, csr_array, issparse

from tests.helpers.borders import border
from turnout.core.errors import UserError
from turnout.data import Dataset, load
from turnout.data.dataset import checksum, digest

MATRICES = arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    elements=st.one_of(st.just(0.0), st.floats(-1e300, 1e300)),
)


def made(features, labels=None, ids=None) -> Dataset:
    return Dataset("made", features, np.zeros(features.shape[0]) if labels is None else labels, ids)


def dense(features) -> np.ndarray:
    return features.toarray() if issparse(features) else features


@pytest.mark.tiers(longer=["sparse"])
@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
@given(MATRICES)
@settings(max_examples=100, deadline=None)
def test_rows_get_length_one_and_empty_rows_stay_zero(form, matrix):
    scaled = dense(made(form(matrix)).normalized("rows").features)
    full = (matrix != 0).any(axis=1)
    assert np.allclose(np.linalg.norm(scaled[full], axis=1), 1)
    assert not scaled[~full].any()


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1.0, 1e200])
@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_row_scaling_keeps_the_direction_at_every_magnitude(form, scale):
    scaled = dense(made(form(np.array([[3.0, 0.0, -4.0]]) * scale)).normalized("rows").features)
    assert np.allclose(scaled, [[0.6, 0, -0.8]], rtol=1e-3)


@given(arrays(np.float64, st.tuples(st.integers(2, 8), st.integers(1, 4)), elements=st.integers(-1000, 1000)))
@settings(max_examples=60, deadline=None)
def test_columns_get_mean_zero_and_deviation_one_and_constant_ones_zero(matrix):
    scaled = made(matrix).normalized("columns").features
    varies = np.ptp(matrix, axis=0) > 0
    assert np.allclose(scaled.mean(axis=0), 0, atol=1e-9)
    assert np.allclose(scaled[:, varies].std(axis=0), 1)
    assert not scaled[:, ~varies].any()


@border(
    matrix=arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 3)), elements=st.integers(-9, 9)),
    powers=st.lists(st.integers(-900, 900), min_size=3, max_size=3),
)
def test_the_scale_of_a_column_changes_no_digit(matrix, powers):
    """Neither squares nor sums overflow or vanish."""
    scale = 2.0 ** np.array(powers[: matrix.shape[1]])
    np.testing.assert_array_equal(
        made(matrix * scale).normalized("columns").features, made(matrix).normalized("columns").features
    )


@border(
    entries=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(-128, 127)), max_size=9),
    dtype=st.sampled_from([np.int8, np.uint8, np.int16, np.float32, np.float64]),
    form=st.sampled_from([coo_array, csr_array]),
)
def test_entries_of_one_place_are_added_up_in_double(entries, dtype, form):
    """Also where their own type does not hold the sum."""
    rows, columns, values = np.array(entries or np.zeros((0, 3)), int).T
    values, wanted = values.astype(dtype), np.zeros((3, 3))
    np.add.at(wanted, (rows, columns), values.astype(float))
    order = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows[order], np.arange(4))
    parts = (values, (rows, columns)) if form is coo_array else (values[order], columns[order], starts)
    np.testing.assert_array_equal(made(form(parts, shape=(3, 3))).features.toarray(), wanted)


@border(values=arrays(np.float64, (3, 2), elements=st.floats(-9, 9)), mask=arrays(bool, (3, 2)))
def test_masks_are_refused_where_they_hide_something(values, mask):
    array = np.ma.masked_array(values, mask=mask)
    if mask.any():
        with pytest.raises(UserError, match="features are masked in places"):
            made(array)
        with pytest.raises(UserError, match="of features, are masked in places"):
            load((array, [0, 1, 2]))
    else:
        np.testing.assert_array_equal(made(array).features, values)
    if mask[:, 0].any():
        for arrays_ in ((values, array[:, 0]), (values, [0, 1, 2], array[:, 0])):
            with pytest.raises(UserError, match="masked in places"):
                load(arrays_)


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        (np.array([[1 + 1j]]), "features are complex numbers"),
        (csr_array(np.array([[1 + 1j]])), "features are complex128, which no model takes"),
        (
            csr_array(([1.0], ([0], [2**31 - 2])), shape=(1, 2**31 - 1)),
            "go up to number 2,147,483,647, so that a model takes 16 GiB",
        ),
    ],
)
def test_features_that_no_model_takes_are_refused(features, sentence):
    with pytest.raises(UserError, match=sentence):
        made(features)


def test_a_constant_column_becomes_zero_where_its_mean_is_rounded():
    assert not made(np.full((3, 1), 0.1)).normalized("columns").features.any()


def test_columns_of_a_sparse_matrix_are_not_centred():
    with pytest.raises(UserError, match="made is sparse.*'rows'"):
        made(csr_array(np.eye(2))).normalized("columns")


def test_normalization_keeps_the_rest_and_leaves_the_original():
    features = np.array([[3.0, 4.0], [0.0, 2.0]])
    data = made(features, np.array([1, 2]), np.array([5, 6]))
    scaled = data.normalized("rows")
    assert scaled.labels.tolist() == [1, 2] and scaled.ids.tolist() == [5, 6] and scaled.name == "made"
    assert data.features.tolist() == [[3, 4], [0, 2]]
    assert np.array_equal(data.normalized("none").features, features)


def test_an_unknown_normalization_suggests_the_nearest():
    with pytest.raises(UserError, match="'row'.*'rows'"):
        made(np.eye(2)).normalized("row")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_a_feature_that_is_not_finite_names_its_row_from_one(form, bad):
    features = np.zeros((5, 3))
    features[3, 1] = features[4, 0] = bad
    with pytest.raises(UserError, match="data set made: row 4 has a feature.*remove the row"):
        made(form(features))


def test_a_label_that_is_not_finite_names_its_row():
    with pytest.raises(UserError, match="row 2 has a label"):
        made(np.zeros((2, 1)), np.array([1.0, np.nan]))


def test_lengths_must_agree():
    with pytest.raises(UserError, match="labels have shape"):
        made(np.zeros((3, 1)), np.zeros(2))
    with pytest.raises(UserError, match="ids have shape"):
        made(np.zeros((3, 1)), np.zeros(3), np.zeros(4))
    with pytest.raises(UserError, match="features have shape"):
        made(np.zeros(3))


def test_sparse_features_take_one_canonical_form():
    unsorted = csr_array((np.array([1, 2, 3]), np.array([2, 1, 0]), np.array([0, 2, 2, 3])), shape=(3, 3))
    features = made(unsorted).features
    assert features.dtype == np.float64 and features.data.tolist() == [2, 1, 3]
    assert features.indptr.tolist() == [0, 2, 2, 3] and features.indices.tolist() == [1, 2, 0]


def test_duplicates_are_summed_stored_zeros_dropped_and_the_input_is_left_alone():
    given_matrix = csr_array((np.array([1.0, 2.0, 0.0]), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    features = made(given_matrix).features
    assert features.nnz == 1 and features.toarray().tolist() == [[0, 3]]
    assert given_matrix.nnz == 3


@given(MATRICES, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_checksum_ignores_storage_and_row_order_and_sees_every_value(matrix, random):
    labels = np.arange(len(matrix)) % 2.0
    reference = checksum(made(matrix, labels))
    order = list(range(len(matrix)))
    random.shuffle(order)
    assert checksum(made(csr_array(matrix), labels)) == reference
    assert checksum(made(matrix, labels.astype(int))) == reference
    assert checksum(made(matrix[order], labels[order])) == reference
    changed = matrix.copy()
    changed[random.randrange(len(matrix)), 0] += 1e301
    assert checksum(made(changed, labels)) != reference
    assert checksum(made(matrix, labels + 1)) != reference
    assert checksum(made(matrix[:-1], labels[:-1])) != reference


def test_the_checksum_sees_which_column_a_value_is_in_and_how_often_a_row_occurs():
    assert checksum(made(np.array([[1.0, 0.0]]))) != checksum(made(np.array([[0.0, 1.0]])))
    assert checksum(made(np.ones((2, 1)))) != checksum(made(np.ones((3, 1))))


def test_the_digest_sees_the_order_of_rows_and_the_ids():
    features, labels = np.arange(6.0).reshape(3, 2), np.array([0, 1, 0])
    reference = digest(made(features, labels))
    assert reference == digest(made(features.copy(), labels.copy()))
    assert reference != digest(made(features[::-1], labels[::-1]))
    assert reference != digest(made(features, labels, np.array([1, 1, 2])))


IMAGES = arrays(np.uint8, st.one_of(*(st.tuples(*[st.integers(1, 4)] * axes) for axes in (3, 4))))


@given(IMAGES)
@settings(max_examples=40, deadline=None)
def test_images_stay_bytes_and_flat_rows_are_their_bytes_over_255(images):
    data = made(images)
    assert data.images and data.features is images and data.width == images[0].size and data.rows == len(images)
    flat = data.flat()
    assert not flat.images and flat.features.dtype == np.float64 and flat.flat() is flat
    assert np.array_equal(flat.features, images.reshape(len(images), -1) / 255)
    assert data.normalized("none") is data
    for how in ("rows", "columns"):
        assert np.array_equal(data.normalized(how).features, flat.normalized(how).features)
    assert checksum(data) == checksum(flat)


def test_the_digest_of_images_sees_their_shape_and_every_pixel():
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    changed = images.copy()
    changed[1, 2, 3] += 1
    assert len({digest(made(each)) for each in (images, changed, images.reshape(2, 4, 3), images.transpose(0, 2, 1))}) == 4


@pytest.mark.parametrize("features", [np.zeros((2, 3, 3)), np.zeros((2, 1, 1, 1, 1), np.uint8), np.zeros((2, 3, 3), int)])
def test_images_that_are_no_bytes_are_refused(features):
    with pytest.raises(UserError, match="features have shape.*or images as bytes"):
        made(features)


def test_two_axes_of_bytes_are_rows_of_numbers():
    data = made(np.array([[3, 255]], np.uint8))
    assert not data.images and data.features.dtype == np.float64 and data.features.tolist() == [[3, 255]]


def test_a_data_set_is_shown_in_one_line():
    images = Dataset("pictures", np.zeros((3, 2, 2, 3), np.uint8), np.array([0, 1, 0]), ids=np.array(["a", "b", "b"]))
    assert repr(images) == "Dataset('pictures': 3 images of 2 x 2 x 3 bytes, labels of 2 values, 2 natural clients)"
    assert "3 rows of 3 sparse features" in repr(Dataset("s", csr_array(np.eye(3)), np.arange(3)))
