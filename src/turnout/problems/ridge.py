"""Ridge regression."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from turnout.core.records import NonNegative, record
from turnout.problems.base import Constants, Problem
from turnout.problems.eigenvalues import top_eigenvalues
from turnout.problems.federate import federate


@record
class Ridge(Problem):
    """f_i(x) = (1/2 n_i) sum_r (<a_r, x> - b_r)^2 + (mu/2) |x|^2, x of shape [d]."""

    mu: NonNegative

    strongly_convex: ClassVar[bool] = True

    @classmethod
    def of(cls, dataset, split, mu: float, weights=None) -> "Ridge":
        """Cut `dataset` into clients, its labels being the targets b_r."""
        return cls(**federate(dataset.flat(), split, np.asarray(dataset.labels, float), weights), mu=mu)

    def losses(self, x, rows):
        features, targets = rows
        return jnp.square(features @ x - targets) / 2

    def regulariser(self, x):
        return self.mu / 2 * (x @ x)

    def start(self, key):
        return jnp.zeros(self.rows[0].shape[-1], jnp.result_type(float))

    def constants(self):
        """mu_i = mu (a lower bound) and L_i = lambda_max(A_i^T A_i) / n_i + mu."""
        return Constants(np.full(self.clients, self.mu), top_eigenvalues(self) + self.mu)
