"""Binary logistic regression."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from turnout.errors import UserError
from turnout.problem import Constants, Problem
from turnout.problems.linear import federate, top_eigenvalues
from turnout.records import NonNegative, record


@record
class Logistic(Problem):
    """f_i(x) = (1/n_i) sum_r log(1 + exp(-b_r <a_r, x>)) + (mu/2) |x|^2, with labels b_r of -1 and +1, x of shape [d]."""

    mu: NonNegative

    strongly_convex: ClassVar[bool] = True
    classifies: ClassVar[bool] = True

    @classmethod
    def of(cls, dataset, split, mu: float, weights=None) -> "Logistic":
        """Cut `dataset` into clients; of its two classes the smaller label becomes -1, the larger +1."""
        classes = np.unique(dataset.labels)
        if classes.size != 2:
            raise UserError(f"logistic regression needs two classes, but {dataset.name} has {classes.size}")
        signs = np.where(dataset.labels == classes[1], 1.0, -1.0)
        return cls(**federate(dataset, split, signs, weights), mu=mu)

    def losses(self, x, rows):
        features, labels = rows
        return jnp.logaddexp(0, -labels * (features @ x))

    def regulariser(self, x):
        return self.mu / 2 * (x @ x)

    def correct(self, x, rows):
        features, labels = rows
        return (labels * (features @ x) > 0).astype(x.dtype)

    def start(self, key):
        return jnp.zeros(self.rows[0].shape[-1], jnp.result_type(float))

    def constants(self):
        """mu_i = mu and L_i = lambda_max(A_i^T A_i) / (4 n_i) + mu."""
        return Constants(np.full(self.clients, self.mu), top_eigenvalues(self) / 4 + self.mu)
