"""Binary logistic regression."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.core.records import NonNegative, record
from turnout.problems.base import Constants, Problem
from turnout.problems.eigenvalues import top_eigenvalues
from turnout.problems.federate import check_data, federate


@record
class Logistic(Problem):
    """Logistic regression: f_i(x) = (1/n_i) sum_r log(1 + exp(-b_r <a_r, x>)) + (mu/2) |x|^2, b_r = -1 or +1, x [d].

    Args:
        rows: (features a [rows, d], labels b [rows]).
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        mu: Weight of the regulariser, >= 0.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("breast_cancer").normalized("columns")
        >>> problem = t.Logistic.of(data, IidSplit(clients=10).split(data), mu=0.1)
        >>> problem.clients, problem.start(None).shape
        (10, (30,))
        >>> float(problem.constants().convexity.min())
        0.1
    """

    mu: NonNegative

    strongly_convex: ClassVar[bool] = True
    classifies: ClassVar[bool] = True

    @classmethod
    def of(cls, dataset, split, mu: float, weights=None) -> "Logistic":
        """Build the problem of a data set with two classes, the smaller label being -1, the larger +1.

        Args:
            dataset: The data set.
            split: How its rows are split into clients.
            mu: Weight of the regulariser, >= 0.
            weights: Client weights lambda [n] up to their sum, uniform if None.

        Raises:
            UserError: There are not two classes, or the weights do not fit.
        """
        check_data(dataset, split)
        classes = dataset.classes
        if classes.size != 2:
            raise UserError(
                f"logistic regression needs two classes, but {dataset.name} has {classes.size}: give data with two, or "
                "data.like(train) where these are to test what is trained on others"
            )
        signs, labels = dataset.recoded(lambda labels: np.where(labels == classes[1], 1.0, -1.0)), tuple(classes.tolist())
        return cls(**federate(dataset.flat(), split, signs, weights, labels), mu=mu)

    @property
    def codes(self) -> Float[np.ndarray, "2"]:
        """-1 and +1."""
        return np.array([-1.0, 1.0])

    def losses(self, x, rows):
        features, labels = rows
        return jnp.logaddexp(0, -labels * (features @ x))

    def regulariser(self, x):
        return self.mu / 2 * (x @ x)

    def correct(self, x, rows):
        features, labels = rows
        return (labels * (features @ x) > 0).astype(x.dtype)

    def predicted(self, x, rows):
        margins = rows[0] @ x
        # A margin of 0 is correct for neither class.
        return jnp.where(margins == 0, -1, jnp.where(margins > 0, 1, 0))

    def start(self, key):
        return np.zeros(self.rows[0].shape[-1], jnp.result_type(float))

    def constants(self):
        """Return mu_i = mu and L_i = lambda_max(A_i^T A_i) / (4 n_i) + mu."""
        return Constants(np.full(self.clients, self.mu), top_eigenvalues(self) / 4 + self.mu)


@record
class NonconvexLogistic(Logistic):
    """`Logistic` with alpha sum_k x_k^2 / (1 + x_k^2) added to every f_i (Cost-aware client selection, section 7).

    Args:
        rows: (features [rows, d], labels [rows] of -1 and +1).
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        mu: Weight of the quadratic regulariser, >= 0.
        alpha: Weight of the nonconvex regulariser, >= 0.
    """

    alpha: NonNegative

    strongly_convex: ClassVar[bool] = False

    @classmethod
    def of(cls, dataset, split, mu: float, weights=None, alpha: float = 0.1) -> "NonconvexLogistic":
        """Build the problem of a data set with two classes; see `Logistic.of`.

        Args:
            dataset: A data set with two classes.
            split: Rows of each client.
            mu: Weight of (mu/2) |x|^2.
            weights: lambda_i up to a factor [n]; None for equal weights.
            alpha: alpha of the regulariser.
        """
        return cls(**vars(Logistic.of(dataset, split, mu, weights)), alpha=alpha)

    def regulariser(self, x):
        return super().regulariser(x) + self.alpha * jnp.sum(jnp.square(x) / (1 + jnp.square(x)))

    def constants(self):
        """Return mu_i = mu - alpha / 2 and L_i = lambda_max(A_i^T A_i) / (4 n_i) + mu + 2 alpha.

        The second derivative of u^2 / (1 + u^2) is 2 at u = 0 and -1/2, its least value, at |u| = 1.
        """
        convexity, smoothness = super().constants()
        return Constants(convexity - self.alpha / 2, smoothness + 2 * self.alpha)
