"""The worst case of federated optimization: a chain of coordinates whose links are dealt out among the clients."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.core.records import Positive, record
from turnout.problems.base import Constants, Population, Problem


@record
class Chain(Problem):
    """f_i(x) = c sum_j (x_j - x_{j+1})^2 + (mu/2) |x|^2 over the links j = i, i + n, i + 2n, ... that client i of n holds.

    x_1, ..., x_length are the parameters, x_0 = 1, x_{length+1} = 0, c = `stiffness`, and clients count from 0. From x = 0, when
    k coordinates are found, only the client that holds link k can find the next. This is equation (41) of FedDCD, appendix F, cut
    off after `length` coordinates, but there client 0 holds link 1 as well, and finds two coordinates at once.
    """

    mu: Positive
    stiffness: Positive

    strongly_convex: ClassVar[bool] = True

    @classmethod
    def of(cls, clients: int, length: int, mu: float, smoothness: float) -> "Chain":
        """Build the chain with c = (L - n mu) / 8, whose f_i are mu-strongly convex and `smoothness` = L smooth, L > n mu."""
        if not smoothness > clients * mu > 0:
            raise UserError(
                f"a chain of {clients} clients needs 0 < clients * mu < smoothness, but mu is {mu:g} and smoothness "
                f"{smoothness:g}: lower mu"
            )
        if not 1 < clients <= length + 1:
            raise UserError(f"a chain of length {length} has links for 2 to {length + 1} clients, but there are {clients}")
        links = (np.arange(length + 1)[None] % clients == np.arange(clients)[:, None]).astype(float)
        population = Population(count=clients)
        return cls(links, np.arange(clients + 1), population, mu=mu, stiffness=(smoothness - clients * mu) / 8)

    def losses(self, x, rows):
        ends = jnp.eye(1, 2, dtype=x.dtype)[0]
        return self.stiffness * (rows @ jnp.diff(x, prepend=ends[:1], append=ends[1:]) ** 2)

    def regulariser(self, x):
        return self.mu / 2 * (x @ x)

    def start(self, key):
        return jnp.zeros(self.rows.shape[-1] - 1, jnp.result_type(float))

    def constants(self):
        """mu_i and L_i are the extreme eigenvalues of the tridiagonal Hessian of f_i."""
        # Slow to import.
        from scipy.linalg import eigvalsh_tridiagonal

        forms = [eigvalsh_tridiagonal(links[:-1] + links[1:], -links[1:-1]) for links in self.rows]
        eigenvalues = 2 * self.stiffness * np.array(forms) + self.mu
        return Constants(eigenvalues[:, 0], eigenvalues[:, -1])

    @property
    def length(self) -> int:
        """The number of coordinates."""
        return self.rows.shape[-1] - 1

    @property
    def ratio(self) -> float:
        """q = (sqrt K - 1) / (sqrt K + 1), K = 1 + 8c / (n mu); with c as in `of`, K = L / (n mu)."""
        root = np.sqrt(1 + 8 * self.stiffness / (self.clients * self.mu))
        return float((root - 1) / (root + 1))

    def minimiser(self) -> Float[np.ndarray, " length"]:
        """x*, which solves -x_{k-1} + (2 + n mu / 2c) x_k - x_{k+1} = 0, x_0 = 1, x_{length+1} = 0."""
        return chain_minimiser(self.ratio, self.length)


def chain_minimiser(ratio: float, length: int) -> Float[np.ndarray, " length"]:
    """x*_k = (q^k - q^(2 length + 2 - k)) / (1 - q^(2 length + 2)) for k = 1, ..., length, q = `ratio` being `Chain.ratio`."""
    k = np.arange(1, length + 1)
    return (ratio**k - ratio ** (2 * length + 2 - k)) / (1 - ratio ** (2 * length + 2))
