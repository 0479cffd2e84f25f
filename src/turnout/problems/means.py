"""Means of the columns of a matrix, of which each client has some rows."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from turnout.core.records import record
from turnout.problems.base import Constants, Problem


@record
class Means(Problem):
    """f_i(x) = (1/n_i) sum_r |x - z_r|^2 / 2 over the rows z_r of client i, with the minimiser sum_i lambda_i (1/n_i) sum_r z_r.

    Clients that count for their rows have the mean of all rows as the minimiser, where one step of length 1 of gradient
    descent with all clients ends.

    Args:
        rows: The rows z [rows, d].
        offsets: Where each client's rows begin [n + 1].
        population: The clients.

    Examples:
        >>> import numpy as np
        >>> import turnout as t
        >>> from turnout.problems.means import Means
        >>> problem = Means(np.array([[0.0], [4.0], [5.0]]), np.array([0, 1, 3]), t.Population(2, np.array([1 / 3, 2 / 3])))
        >>> t.run(t.Gd(t.Full(), lr=1.0), problem, rounds=1).x.round(12).tolist()
        [3.0]
    """

    strongly_convex: ClassVar[bool] = True

    def losses(self, x, rows):
        return jnp.sum(jnp.square(x[None] - rows), axis=1) / 2

    def start(self, key):
        return np.zeros(self.rows.shape[1], jnp.result_type(float))

    def constants(self):
        """Return mu_i = L_i = 1."""
        return Constants(np.ones(self.clients), np.ones(self.clients))
