"""General quadratics with known constants and optimum."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from turnout.errors import UserError
from turnout.problem import Constants, Population, Problem
from turnout.records import record


@record
class Quadratic(Problem):
    """f_i(x) = x^T A_i x / 2 - <b_i, x>, with symmetric A_i; each client holds one row (A_i, b_i), x of shape [d]."""

    strongly_convex: ClassVar[bool] = True

    @classmethod
    def of(cls, matrices: Float[np.ndarray, "n d d"], vectors: Float[np.ndarray, "n d"], weights=None) -> "Quadratic":
        """Build the problem of n clients from A [n, d, d] and b [n, d]."""
        if not np.allclose(matrices, np.swapaxes(matrices, 1, 2)):
            raise UserError("quadratic: every A_i must be symmetric")
        population = Population(count=len(matrices), weights=weights)
        return cls(rows=(matrices, vectors), offsets=np.arange(len(matrices) + 1), population=population)

    @classmethod
    def random(cls, clients: int, dimension: int, smallest=1.0, largest=10.0, spread=1.0, seed=0) -> "Quadratic":
        """Draw A_i with eigenvalues in [smallest, largest] in random directions and optima of the f_i N(0, spread^2)."""
        generator = np.random.default_rng(seed)
        bases = np.linalg.qr(generator.normal(size=(clients, dimension, dimension)))[0]
        eigenvalues = np.geomspace(smallest, largest, dimension)
        matrices = (bases * eigenvalues) @ np.swapaxes(bases, 1, 2)
        optima = spread * generator.normal(size=(clients, dimension))
        return cls.of((matrices + np.swapaxes(matrices, 1, 2)) / 2, np.einsum("nij,nj->ni", matrices, optima))

    def losses(self, x, rows):
        matrices, vectors = rows
        return jnp.einsum("i,bij,j->b", x, matrices, x) / 2 - vectors @ x

    def start(self, key):
        return jnp.zeros(self.rows[1].shape[-1], jnp.result_type(float))

    def constants(self):
        """mu_i = lambda_min(A_i) and L_i = lambda_max(A_i)."""
        eigenvalues = np.linalg.eigvalsh(self.rows[0])
        return Constants(eigenvalues[:, 0], eigenvalues[:, -1])
