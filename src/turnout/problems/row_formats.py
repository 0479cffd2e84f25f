"""Formats of feature rows: dense arrays, small whole numbers in bytes, and compressed sparse rows."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int8, PyTree

from turnout.core.narrowing import narrowed
from turnout.core.records import record, static

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SHORT = 8
"""The most columns for each entry of the longest row at which dense rows are faster: a sparse entry takes 8 to 25 times as long
as a dense one, since it is read and added up by its number, and all rows are padded to the longest."""

FEW = 2**28
"""The most bytes of dense rows in the place of sparse ones."""


@record
class NarrowRows:
    """Dense rows of small whole numbers, such as one-hot features, in one byte each; `self @ x` has the dtype of x.

    Args:
        values: The features [rows, d].
    """

    values: Int8[Any, "*rows d"]

    def __matmul__(self, x: Float[Array, "d *c"]) -> Float[Array, "b *c"]:
        return jnp.asarray(self.values).astype(x.dtype) @ x

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape


@record
class SparseBatch:
    """b sparse rows, each padded with zeros to k entries; `self @ x` is the product with a vector or matrix x.

    Args:
        columns: The column of each entry [b, k].
        values: The value of each entry [b, k].
    """

    columns: Int[Array, "b k"]
    values: Float[Array, "b k"]

    def __matmul__(self, x: Float[Array, "d *c"]) -> Float[Array, "b *c"]:
        return jnp.einsum("bk,bk...->b...", self.values, x[self.columns])


@record
class SparseRows:
    """Compressed sparse rows [rows, d]: row r has the entries `starts[r]` to `starts[r + 1]` - 1.

    Args:
        values: The value of each entry [entries].
        columns: The column of each entry [entries].
        starts: Where each row's entries begin [rows + 1].
        width: d, the number of columns.
        longest: The largest number of entries of a row.
    """

    values: Float[Any, " entries"]
    columns: Int[Any, " entries"]
    starts: Int[Any, " bounds"]
    width: int = static()
    longest: int = static()

    @classmethod
    def of(cls, matrix) -> "SparseRows":
        """Return the rows of a scipy.sparse matrix."""
        matrix = matrix.tocsr()
        lengths = np.diff(matrix.indptr)
        return cls(
            values=matrix.data,
            columns=narrowed(matrix.indices, np.int32, "a sparse matrix"),
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

    def to_scipy(self) -> "csr_array":
        """Return the rows as a scipy.sparse array."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.columns, self.starts), shape=self.shape)


def is_sparse(leaf) -> bool:
    """Return whether `leaf` holds sparse rows."""
    return isinstance(leaf, SparseRows)


def take(rows: PyTree, indices: Int[Any, " b"]) -> PyTree:
    """Return the rows numbered `indices` [b] of each array of the pytree `rows`.

    Args:
        rows: Arrays with the same first axis.
        indices: Numbers of the rows [b].
    """
    return jax.tree.map(lambda leaf: leaf[indices], rows, is_leaf=is_sparse)


def row_count(rows: PyTree) -> int:
    """Return the number of rows."""
    return jax.tree.leaves(rows, is_leaf=is_sparse)[0].shape[0]


def compact(features: "csr_array") -> np.ndarray | NarrowRows | SparseRows:
    """Return sparse features in the fastest format that is small enough.

    That is at most twice the bytes of the smallest one, or `FEW` bytes where rows are so `SHORT` that dense ones are faster.
    """
    rows, width = features.indptr.size - 1, features.shape[1]
    sizes = {"narrow": rows * width, "dense": 8 * rows * width, "sparse": 12 * features.nnz + 4 * rows}
    if not (np.abs(features.data) <= 127).all() or (features.data % 1).any():
        del sizes["narrow"]
    short = width <= SHORT * np.diff(features.indptr).max(initial=0)
    most = max(2 * min(sizes.values()), FEW if short else 0)
    chosen = next(name for name, size in sizes.items() if size <= most)
    if chosen == "sparse":
        return SparseRows.of(features)
    return features.toarray() if chosen == "dense" else NarrowRows(features.astype(np.int8).toarray())


def plain(features: PyTree, first: int, last: int):
    """Return the rows `first` to `last` - 1 as a NumPy or scipy.sparse matrix of floats.

    Args:
        features: Features in any format of rows.
        first: First row.
        last: Row after the last one.
    """
    if isinstance(features, SparseRows):
        return features.to_scipy()[first:last]
    values = features.values if isinstance(features, NarrowRows) else features
    return np.asarray(values[first:last], float)
