"""Matrices of low rank."""

import math

import jax
import jax.numpy as jnp

from turnout.codecs.base import Codec
from turnout.core.records import Count, record, static


@record
class LowRank(Codec):
    """C(M) = P P' M with P an orthonormal basis of the range of M Q, Q Gaussian [c, r] (PowerSGD, Vogels et al., 2019).

    An array [a, ...] is a matrix [a, c]; P [a, r] and M' P [c, r] travel. Arrays for which these are no smaller travel as they
    are, so vectors do. The error is orthogonal to C(M), so |C(M) - M| <= |M|; no better bound holds for every M.

    Args:
        rank: r.

    Examples:
        >>> import jax, jax.numpy as jnp, turnout as t
        >>> [part.shape for part in t.codecs.LowRank(rank=2).encode(jnp.ones((20, 30)), jax.random.key(0))]
        [(20, 2), (30, 2)]
    """

    rank: Count = static(default=1)

    def encode(self, x, key):
        rows, columns = _shape(x)
        if not self._smaller(rows, columns):
            return (x,)
        matrix = x.reshape(rows, columns)
        basis, _ = jnp.linalg.qr(matrix @ jax.random.normal(key, (columns, self.rank), x.dtype))
        return basis, matrix.T @ basis

    def decode(self, payload, like, key):
        if len(payload) == 1:
            return payload[0]
        basis, coordinates = payload
        return (basis @ coordinates.T).reshape(like.shape)

    def _smaller(self, rows: int, columns: int) -> bool:
        return self.rank * (rows + columns) < rows * columns


def _shape(x) -> tuple[int, int]:
    return (x.shape[0], math.prod(x.shape[1:])) if x.ndim > 1 else (x.size, 1)
