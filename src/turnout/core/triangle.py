"""Symmetric matrices [d, d] as vectors of d (d + 1) / 2 numbers, half the bytes."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def triangle(matrix: Float[Array, "d d"]) -> Float[Array, " t"]:
    """Return the lower triangle, row by row, with sqrt 2 times the entries off the diagonal.

    So the Euclidean norm of the vector is the Frobenius norm of the matrix, and a codec's constants hold in it.

    Args:
        matrix: A symmetric matrix.
    """
    rows, columns = np.tril_indices(matrix.shape[0])
    return matrix[rows, columns] * jnp.asarray(_factors(rows, columns), matrix.dtype)


def symmetric(vector: Float[Array, " t"]) -> Float[Array, "d d"]:
    """Return the matrix of which `vector` is the `triangle`.

    Args:
        vector: d (d + 1) / 2 numbers.
    """
    side = side_of(vector.size)
    rows, columns = np.tril_indices(side)
    entries = vector / jnp.asarray(_factors(rows, columns), vector.dtype)
    return jnp.zeros((side, side), vector.dtype).at[rows, columns].set(entries).at[columns, rows].set(entries)


def size_of(side: int) -> int:
    """Return d (d + 1) / 2.

    Args:
        side: d.
    """
    return side * (side + 1) // 2


def side_of(size: int) -> int:
    """Return the largest d with d (d + 1) / 2 <= size: the side of the matrix, if `size` is that of a triangle.

    Args:
        size: How many numbers.
    """
    return (math.isqrt(8 * size + 1) - 1) // 2


def _factors(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return np.where(rows == columns, 1.0, math.sqrt(2))
