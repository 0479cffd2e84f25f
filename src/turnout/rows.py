"""Rows of data: pytrees of arrays with a common leading axis, and compressed sparse rows that behave like one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from turnout.records import record, static


@record
class SparseBatch:
    """b sparse rows, each padded with zeros to `k` entries: `self @ x` is the product with a vector or matrix x."""

    columns: Int[Array, "b k"]
    values: Float[Array, "b k"]

    def __matmul__(self, x: Float[Array, "d *c"]) -> Float[Array, "b *c"]:
        return jnp.einsum("bk,bk...->b...", self.values, x[self.columns])


@record
class SparseRows:
    """Compressed sparse rows [rows, d]: row r has the entries `starts[r]` to `starts[r + 1]`, at most `longest` of them."""

    values: Float[Any, " entries"]
    columns: Int[Any, " entries"]
    starts: Int[Any, " bounds"]
    width: int = static()
    longest: int = static()

    @classmethod
    def of(cls, matrix) -> "SparseRows":
        """Convert a scipy.sparse matrix."""
        matrix = matrix.tocsr()
        lengths = np.diff(matrix.indptr)
        return cls(
            values=matrix.data,
            columns=matrix.indices.astype(np.int32),
            starts=matrix.indptr.astype(np.int64 if matrix.nnz > 2**31 - 1 else np.int32),
            width=matrix.shape[1],
            longest=max(1, int(lengths.max(initial=0))),
        )

    @property
    def shape(self) -> tuple[int, int]:
        return self.starts.shape[0] - 1, self.width

    def __getitem__(self, indices) -> "SparseRows | SparseBatch":
        if isinstance(indices, np.ndarray) and isinstance(self.values, np.ndarray):
            return SparseRows.of(self.to_scipy()[indices])
        first, last = self.starts[indices], self.starts[indices + 1]
        entries = first[:, None] + jnp.arange(self.longest, dtype=first.dtype)[None]
        inside = entries < last[:, None]
        return SparseBatch(jnp.where(inside, self.columns[entries], 0), jnp.where(inside, self.values[entries], 0))

    def to_scipy(self):
        from scipy.sparse import csr_array

        return csr_array((self.values, self.columns, self.starts), shape=self.shape)


def is_sparse(leaf) -> bool:
    return isinstance(leaf, SparseRows)


def take(rows: PyTree, indices: Int[Any, " b"]) -> PyTree:
    """Return the rows `indices`, as b rows of the same pytree."""
    return jax.tree.map(lambda leaf: leaf[indices], rows, is_leaf=is_sparse)


def row_count(rows: PyTree) -> int:
    """Return how many rows there are."""
    return jax.tree.leaves(rows, is_leaf=is_sparse)[0].shape[0]
