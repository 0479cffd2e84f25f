"""Arrays in narrower types."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.core.errors import UserError
from turnout.core.narrowing import narrowed
from turnout.data import IidSplit, load, write_clients

WIDE = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4).map(lambda values: np.array(values, np.int64)),
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4).map(lambda values: np.array(values, np.uint64)),
    st.lists(st.integers(-(2**33), 2**33), min_size=1, max_size=4).map(lambda values: np.array(values, np.int64)),
)


@given(WIDE, st.sampled_from([np.int32, np.int64, np.uint8]))
def test_whole_numbers_come_out_as_they_went_in_or_are_refused(array, dtype):
    limits = np.iinfo(dtype)
    if all(limits.min <= value <= limits.max for value in array.tolist()):
        assert narrowed(array, dtype, "labels").tolist() == array.tolist()
    else:
        with pytest.raises(UserError, match="labels holds .* beyond the range"):
            narrowed(array, dtype, "labels")


@given(st.floats(width=64))
def test_floating_point_numbers_are_rounded_or_refused(value):
    if not np.isfinite(value) or abs(value) <= float(np.finfo(np.float32).max):
        np.testing.assert_array_equal(narrowed(np.array([value]), np.float32, "rows"), np.array([value]).astype(np.float32))
    else:
        with pytest.raises(UserError, match="rows holds .* beyond the range of float32"):
            narrowed(np.array([value]), np.float32, "rows")


@pytest.mark.parametrize("value", [np.nan, np.inf, 2.0**63])
def test_what_no_whole_number_holds_is_refused(value):
    with pytest.raises(UserError, match="beyond the range of int64"):
        narrowed(np.array([value]), np.int64, "labels")


def test_labels_that_would_wrap_are_refused_by_arrays_and_client_files(tmp_path):
    with pytest.raises(UserError, match="18446744073709551615, which is beyond the range of int64"):
        load((np.eye(2), np.array([0, 2**64 - 1], np.uint64)))
    data = load((np.eye(2), np.array([0, 2**31])))
    with pytest.raises(UserError, match="2147483648, which is beyond the range of int32"):
        write_clients(tmp_path / "clients.arrow", data, IidSplit(clients=2).split(data))
    assert not [*tmp_path.iterdir()]
