"""Matrices of low rank."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from turnout.codecs.base import Codec
from turnout.codecs.bits import FewBits, from_levels, to_levels
from turnout.core.records import Count, record, static


@record
class LowRank(Codec):
    """C(M) = P P' M with P an orthonormal basis of the range of M Q, Q Gaussian [c, r] (PowerSGD, Vogels et al., 2019).

    An array is a matrix [a, c] of its first axes by the others, parted so that a + c is least: a kernel of a convolution is one
    of its window and inputs by its outputs, in either order. P [a, r] and M' P [c, r] travel. Arrays for which these are no
    smaller, such as vectors, travel as they are. The error is orthogonal to C(M), so |C(M) - M| <= |M|; no better bound holds for
    every M. With `bits` = b, the columns of P, and those of the least-squares coordinates of M in the rounded P, are rounded as
    `TopK` rounds numbers.

    Args:
        rank: r.
        bits: Bits of each number of both factors, 2 to 8; None for all of them.

    Examples:
        >>> import jax, jax.numpy as jnp, turnout as t
        >>> [part.shape for part in t.codecs.LowRank(rank=2).encode(jnp.ones((20, 30)), jax.random.key(0))]
        [(20, 2), (30, 2)]
    """

    rank: Count = static(default=1)
    bits: FewBits | None = static(default=None, kw_only=True)

    def encode(self, x, key):
        rows, columns = _shape(x)
        if not self._smaller(rows, columns):
            return (x,)
        matrix = x.reshape(rows, columns)
        basis, _ = jnp.linalg.qr(matrix @ jax.random.normal(key, (columns, self.rank), x.dtype))
        if self.bits is None:
            return basis, matrix.T @ basis
        coded = _coded(basis, self.bits)
        basis = _read(coded, rows, self.bits, x.dtype)
        # Of few rows, rounded columns may be the same.
        inverse = jnp.linalg.pinv(basis.T @ basis, hermitian=True)
        return coded, _coded(matrix.T @ basis @ inverse, self.bits)

    def decode(self, payload, like, key):
        if len(payload) == 1:
            return payload[0]
        if self.bits is not None:
            sides = zip(payload, _shape(like), strict=True)
            payload = [_read(coded, side, self.bits, like.dtype) for coded, side in sides]
        basis, coordinates = payload
        return (basis @ coordinates.T).reshape(like.shape)

    def _smaller(self, rows: int, columns: int) -> bool:
        return self.rank * (rows + columns) < rows * columns


def _shape(x) -> tuple[int, int]:
    parted = [(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])) for axis in range(1, x.ndim)]
    return min(parted, key=sum, default=(x.size, 1))


def _coded(factor: Float[Array, "a r"], bits: int) -> PyTree:
    """Return the columns of a factor in few bits, each with its largest magnitude."""
    return jax.vmap(lambda column: to_levels(column, bits), in_axes=1)(factor)


def _read(coded: PyTree, rows: int, bits: int, dtype) -> Float[Array, "a r"]:
    """Return the factor that `_coded` coded."""
    return jax.vmap(lambda column: from_levels(column, rows, bits, dtype), out_axes=1)(coded)
