"""Rows of arrays small and large, against NumPy's indexing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.core.rows import SPLIT, rows_at

GENERATOR = np.random.default_rng(5)


@pytest.mark.slow
@given(
    count=st.integers(1, 40),
    shape=st.lists(st.integers(1, 3), max_size=2).map(tuple),
    dtype=st.sampled_from(["float32", "float64", "int8", "bool"]),
    large=st.booleans(),
    many=st.integers(0, 5),
    seed=st.integers(0, 2**16),
)
def test_rows_are_those_of_numpy(count, shape, dtype, large, many, seed):
    n = SPLIT // np.dtype(dtype).itemsize if large else 7
    array = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 100, (n, *shape)).astype(dtype)
    ids = np.random.default_rng(seed).integers(0, n, (many, count))
    each = jax.jit(jax.vmap(rows_at, (None, 0), axis_size=many))(array, jnp.asarray(ids))
    np.testing.assert_array_equal(each, array[ids])
    np.testing.assert_array_equal(jax.jit(rows_at)(array, jnp.asarray(ids.ravel())), array[ids.ravel()])


@pytest.mark.tiers(longer=["5"])
@pytest.mark.parametrize("n", [5, SPLIT])
def test_an_array_for_each_lane(n):
    arrays, ids = GENERATOR.normal(size=(2, n, 1)), jnp.array([[4, 0, 4], [1, 1, 2]])
    np.testing.assert_array_equal(jax.vmap(rows_at)(arrays, ids), np.stack([a[i] for a, i in zip(arrays, ids, strict=True)]))
    np.testing.assert_array_equal(jax.vmap(rows_at, (0, None))(arrays, ids[0]), arrays[:, np.asarray(ids[0])])


def test_few_rows_of_a_large_array_are_read_by_one_thread():
    """The compiler does not divide the reading, as it does with plain indexing where there are several cores."""
    array, ids = jnp.zeros((2 * SPLIT, 4)), jnp.arange(10)

    def divided(read) -> bool:
        return "outer_dimension_partitions" in jax.jit(lambda a, i: 2 * read(a, i)).lower(array, ids).compile().as_text()

    if not divided(lambda a, i: a[i]):
        pytest.skip("the compiler does not divide such a reading on this machine")
    assert not divided(rows_at)
