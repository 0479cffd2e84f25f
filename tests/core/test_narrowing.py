"""Arrays in narrower types."""

import numpy as np
import pytest
from hypothesis import strategies as st

import turnout as t
from tests.helpers.borders import border
from tests.helpers.examples import quadratic
from turnout.core.errors import UserError
from turnout.core.narrowing import narrowed
from turnout.data import IidSplit, load, write_clients

WIDE = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4).map(lambda values: np.array(values, np.int64)),
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4).map(lambda values: np.array(values, np.uint64)),
    st.lists(st.integers(-(2**33), 2**33), min_size=1, max_size=4).map(lambda values: np.array(values, np.int64)),
)


@border(array=WIDE, dtype=st.sampled_from([np.int32, np.int64, np.uint8]))
def test_whole_numbers_come_out_as_they_went_in_or_are_refused(array, dtype):
    limits = np.iinfo(dtype)
    if all(limits.min <= value <= limits.max for value in array.tolist()):
        assert narrowed(array, dtype, "labels").tolist() == array.tolist()
    else:
        with pytest.raises(UserError, match="labels holds .* beyond the range"):
            narrowed(array, dtype, "labels")


REAL = st.one_of(st.floats(width=64), st.floats(1e37, 1e40), st.floats(-1e40, -1e37))


@border(value=REAL, beside=st.sampled_from([0.0, np.nan, np.inf]))
def test_floating_point_numbers_are_rounded_or_refused(value, beside):
    """A number that rounds to the largest one is rounded; NaN and infinity beside it hide nothing."""
    with np.errstate(over="ignore"):
        overflows = np.isfinite(value) and np.isinf(np.float32(value))
    if not overflows:
        np.testing.assert_array_equal(
            narrowed(np.array([value, beside]), np.float32, "rows"), np.array([value, beside]).astype(np.float32)
        )
    else:
        with pytest.raises(UserError, match="rows holds .* beyond the range of float32"):
            narrowed(np.array([beside, value]), np.float32, "rows")


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


def test_what_a_run_is_given_is_narrowed_or_refused():
    """Rows, parameters, and whole numbers of a problem's own, where JAX computes in 32 bits."""
    data = load((np.full((2, 1), 1e39), [0.0, 1.0]))
    problem = t.Ridge.of(data, IidSplit(clients=2).split(data), mu=0.1)
    with pytest.raises(UserError, match="holds 1e.39, which is beyond the range of float32"):
        t.run(t.Gd(t.Full(), lr=0.1), problem, rounds=1, precision="single")
    with pytest.raises(UserError, match="'x' in start holds 1e.39, which is beyond the range of float32"):
        t.run(
            t.Gd(t.Full(), lr=0.1), quadratic(), rounds=1, precision="single", start=np.full(quadratic().start(None).shape, 1e39)
        )

    @t.record
    class Counts(t.Problem):
        def losses(self, x, rows):
            return (x - rows.astype(x.dtype)) ** 2

        def start(self, key):
            return np.zeros(())

    counts = Counts(np.array([2**31, 1]), np.array([0, 1, 2]), t.Population(count=2))
    with pytest.raises(UserError, match="holds 2147483648, which is beyond the range of int32"):
        t.run(t.Gd(t.Full(), lr=0.1), counts, rounds=1, precision="single", metrics=("value",))
