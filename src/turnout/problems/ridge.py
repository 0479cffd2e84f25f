"""Ridge regression."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from turnout.core.records import NonNegative, record
from turnout.problems.base import Constants, Problem
from turnout.problems.eigenvalues import top_eigenvalues
from turnout.problems.federate import check_data, federate, numbers_of


@record
class Ridge(Problem):
    """Ridge regression: f_i(x) = (1/(2 n_i)) sum_r (<a_r, x> - b_r)^2 + (mu/2) |x|^2, x [d].

    Args:
        rows: (features a [rows, d], targets b [rows]).
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        mu: Weight of the regulariser, >= 0.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("diabetes")
        >>> problem = t.Ridge.of(data, IidSplit(clients=5).split(data), mu=0.1)
        >>> problem.sizes.tolist()
        [89, 89, 88, 88, 88]
    """

    mu: NonNegative

    strongly_convex: ClassVar[bool] = True

    @classmethod
    def of(cls, dataset, split, mu: float, weights=None) -> "Ridge":
        """Build the problem of a data set, whose labels are the targets b_r.

        Args:
            dataset: The data set.
            split: How its rows are split into clients.
            mu: Weight of the regulariser, >= 0.
            weights: Client weights lambda [n] up to their sum, uniform if None.

        Raises:
            UserError: The weights do not fit.
        """
        check_data(dataset, split)
        return cls(**federate(dataset.flat(), split, dataset.recoded(numbers_of), weights), mu=mu)

    def losses(self, x, rows):
        features, targets = rows
        return jnp.square(features @ x - targets) / 2

    def regulariser(self, x):
        return self.mu / 2 * (x @ x)

    def start(self, key):
        return np.zeros(self.rows[0].shape[-1], jnp.result_type(float))

    def constants(self):
        """Return the lower bound mu_i = mu and L_i = lambda_max(A_i^T A_i) / n_i + mu."""
        return Constants(np.full(self.clients, self.mu), top_eigenvalues(self) + self.mu)
