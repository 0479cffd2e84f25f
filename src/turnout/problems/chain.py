"""A worst case of federated optimization: a chain of coordinates whose links are distributed over the clients."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.core.records import Positive, record
from turnout.problems.base import Constants, Population, Problem


@record
class Chain(Problem):
    """f_i(x) = c sum_j (x_j - x_{j+1})^2 + (mu/2) |x|^2 over the links j = i, i + n, i + 2n, ... of client i = 0, ..., n - 1.

    The parameters are x_1, ..., x_length; x_0 = 1 and x_{length+1} = 0. From x = 0, once k coordinates are nonzero, only the
    client with link k can change the next one. This is equation (41) of FedDCD, appendix F, with finitely many coordinates; there
    client 0 has link 1 as well, and changes two coordinates at once.

    Args:
        rows: Which links each client has, 0 or 1 [n, length + 1].
        offsets: 0, ..., n.
        population: The clients.
        mu: Strong convexity of every f_i, > 0.
        stiffness: c, > 0.

    Examples:
        >>> import turnout as t
        >>> problem = t.Chain.of(clients=4, length=20, mu=0.01, smoothness=1.0)
        >>> problem.minimiser().shape, round(problem.ratio, 3)
        ((20,), 0.667)
    """

    mu: Positive
    stiffness: Positive

    strongly_convex: ClassVar[bool] = True

    @classmethod
    def of(cls, clients: int, length: int, mu: float, smoothness: float) -> "Chain":
        """Build the chain with c = (L - n mu) / 8, whose f_i are mu-strongly convex and L-smooth.

        Args:
            clients: n, the number of clients, 1 < n <= length + 1.
            length: The number of coordinates.
            mu: Strong convexity of every f_i, > 0.
            smoothness: L > n mu.

        Raises:
            UserError: The numbers violate these bounds.
        """
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
        return np.zeros(self.rows.shape[-1] - 1, jnp.result_type(float))

    def constants(self):
        """Return mu_i and L_i, the extreme eigenvalues of the tridiagonal Hessian of f_i."""
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
        """Return x*, which solves -x_{k-1} + (2 + n mu / (2c)) x_k - x_{k+1} = 0, x_0 = 1, x_{length+1} = 0."""
        return chain_minimiser(self.ratio, self.length)


def chain_minimiser(ratio: float, length: int) -> Float[np.ndarray, " length"]:
    """Return x*_k = (q^k - q^(2 length + 2 - k)) / (1 - q^(2 length + 2)), k = 1, ..., length, for q = `Chain.ratio`.

    Args:
        ratio: q.
        length: Number of coordinates.
    """
    k = np.arange(1, length + 1)
    return (ratio**k - ratio ** (2 * length + 2 - k)) / (1 - ratio ** (2 * length + 2))
