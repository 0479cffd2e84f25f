"""Symmetric matrices by their largest eigenvalues."""

import jax.numpy as jnp

from turnout.codecs.base import Codec
from turnout.core.records import Count, record, static
from turnout.core.triangle import side_of, size_of, symmetric, triangle


@record
class Eigenpairs(Codec):
    """C(M) = sum of v_j u_j u_j' over the r eigenvalues v_j of largest magnitude, of a symmetric M [d, d]; alpha = r / d.

    This is the Rank-R compressor of FedNL (Safaryan et al., 2022, appendix A.3.1). An array of d (d + 1) / 2 numbers is read as
    the lower triangle of M, row by row, with sqrt 2 times the entries off the diagonal, as Hessians are sent; r eigenvalues and r
    eigenvectors travel. Other arrays travel as they are, and so do those for which r (d + 1) numbers are no fewer.

    Args:
        rank: r.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> [part.shape for part in t.codecs.Eigenpairs(rank=1).encode(jnp.ones(10), None)]
        [(1,), (1, 4)]
    """

    rank: Count = static(default=1)

    def encode(self, x, key):
        if not self._smaller(x.size):
            return (x,)
        values, vectors = jnp.linalg.eigh(symmetric(x.reshape(-1)))
        largest = jnp.argsort(-jnp.abs(values))[: self.rank]
        return values[largest], vectors.T[largest]

    def decode(self, payload, like, key):
        if len(payload) == 1:
            return payload[0]
        values, vectors = payload
        return triangle((vectors.T * values[None]) @ vectors).reshape(like.shape)

    def contraction(self, size):
        return self.rank / side_of(size) if self._smaller(size) else 1.0

    def _smaller(self, size: int) -> bool:
        """Whether an array is read as a matrix."""
        side = side_of(size)
        return size_of(side) == size and self.rank * (side + 1) < size
