"""Quadratics with known constants."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.core.records import record
from turnout.problems.base import Constants, Population, Problem

Extremes = tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]


@record
class Quadratic(Problem):
    """f_i(x) = x^T A_i x / 2 - <b_i, x> with symmetric A_i, x [d]; each client has one row (A_i, b_i).

    Args:
        rows: (A [n, d, d], b [n, d]), or the diagonals A [n, d] where all A_i are diagonal.
        offsets: 0, ..., n.
        population: The clients.

    Examples:
        >>> import numpy as np
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, smallest=1.0, largest=10.0, seed=0)
        >>> np.round(problem.constants().smoothness, 6).tolist()[:2]
        [10.0, 10.0]
    """

    strongly_convex: ClassVar[bool] = True

    @classmethod
    def of(cls, matrices: Float[np.ndarray, "n d ..."], vectors: Float[np.ndarray, "n d"], weights=None) -> "Quadratic":
        """Build the problem of n clients from their matrices and vectors.

        Args:
            matrices: A [n, d, d], or the diagonals of A [n, d].
            vectors: b [n, d].
            weights: Client weights lambda [n], which sum to one; uniform if None.

        Raises:
            UserError: The shapes do not fit, or an A_i is not symmetric.
        """
        if matrices.shape[2:] not in ((), vectors.shape[1:]):
            raise UserError(f"quadratic: A has shape {matrices.shape}: give [n, d, d], or [n, d] for diagonal A_i")
        if matrices.ndim == 3 and not np.allclose(matrices, np.swapaxes(matrices, 1, 2)):
            raise UserError("quadratic: every A_i must be symmetric")
        population = Population(count=len(matrices), weights=weights)
        return cls(rows=(matrices, vectors), offsets=np.arange(len(matrices) + 1), population=population)

    @classmethod
    def random(cls, clients: int, dimension: int, smallest=1.0, largest=10.0, spread=1.0, seed=0) -> "Quadratic":
        """Draw A_i with random eigenvectors, and minimisers of the f_i from N(0, spread^2 I).

        Args:
            clients: n, the number of clients.
            dimension: d, the number of parameters.
            smallest: The smallest eigenvalue of every A_i.
            largest: The largest; those between are spaced geometrically.
            spread: Standard deviation of the minimisers' coordinates.
            seed: Seed of the draw.
        """
        generator = np.random.default_rng(seed)
        bases = np.linalg.qr(generator.normal(size=(clients, dimension, dimension)))[0]
        eigenvalues = np.geomspace(smallest, largest, dimension)
        matrices = (bases * eigenvalues) @ np.swapaxes(bases, 1, 2)
        optima = spread * generator.normal(size=(clients, dimension))
        return cls.of((matrices + np.swapaxes(matrices, 1, 2)) / 2, np.einsum("nij,nj->ni", matrices, optima))

    def losses(self, x, rows):
        matrices, vectors = rows
        forms = matrices @ jnp.square(x) if matrices.ndim == 2 else jnp.einsum("i,bij,j->b", x, matrices, x)
        return forms / 2 - vectors @ x

    def start(self, key):
        return np.zeros(self.rows[1].shape[-1], jnp.result_type(float))

    def curvatures(self, matrices: Float[np.ndarray, "n d ..."]) -> Extremes:
        """Return the least and the largest curvature [n] of the clients with these `matrices`."""
        return extremes(matrices)

    def constants(self):
        """Return mu_i = lambda_min(A_i) and L_i = |A_i|, the largest absolute eigenvalue."""
        least, largest = self.curvatures(np.asarray(self.rows[0]))
        return Constants(least, np.maximum(largest, -least))


def extremes(matrices: Float[np.ndarray, "n d ..."]) -> Extremes:
    """Return the least and the largest eigenvalue of each symmetric matrix [n, d, d], or of each diagonal [n, d]."""
    eigenvalues = np.sort(matrices, axis=1) if matrices.ndim == 2 else np.linalg.eigvalsh(matrices)
    return eigenvalues[:, 0], eigenvalues[:, -1]
