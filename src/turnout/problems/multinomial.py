"""Multinomial logistic regression."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from turnout.core.errors import unknown
from turnout.core.records import record, static
from turnout.problems.base import Constants
from turnout.problems.classifier import Classifier, affine
from turnout.problems.eigenvalues import top_eigenvalues
from turnout.problems.federate import check_data, federate_classes


@record
class Multinomial(Classifier):
    """Multinomial logistic regression: a `Classifier` with logits(a) = W^T a + c.

    The parameters are {"weight": W [d, classes], "bias": c [classes]}, without "bias" if not `intercept`.

    Args:
        rows: (features [rows, d], labels [rows] of 0, ..., classes - 1).
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        mu: Weight of the regulariser (mu/2) |x|^2, >= 0.
        classes: Number of classes.
        initial: Initial parameters: "zeros", or "uniform" for draws from U[-1/sqrt(d), 1/sqrt(d)].
        intercept: Whether there is a bias c.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import DirichletSplit, load
        >>> data = load("digits")
        >>> problem = t.Multinomial.of(data, DirichletSplit(clients=10, concentration=0.5).split(data), mu=0.01)
        >>> problem.start(None)["weight"].shape
        (64, 10)
    """

    initial: str = static(default="zeros")
    intercept: bool = static(default=True)

    strongly_convex: ClassVar[bool] = True

    def __post_init__(self):
        if self.initial not in ("zeros", "uniform"):
            raise unknown("initial", str(self.initial), ("zeros", "uniform"))

    @classmethod
    def of(cls, dataset, split, mu: float = 0.0, weights=None, initial: str = "zeros", intercept: bool = True) -> "Multinomial":
        """Build the problem of a data set; its classes are numbered in increasing order of their labels.

        Args:
            dataset: The data set.
            split: How its rows are split into clients.
            mu: Weight of the regulariser, >= 0.
            weights: Client weights lambda [n] up to their sum, uniform if None.
            initial: "zeros" or "uniform".
            intercept: Whether there is a bias.

        Raises:
            UserError: A label is not a whole number, or the weights do not fit.
        """
        check_data(dataset, split)
        return cls(**federate_classes(dataset.flat(), split, weights), mu=mu, initial=initial, intercept=intercept)

    def logits(self, x, features):
        return affine(x, features)

    def start(self, key):
        """Return zeros, or with `initial` = "uniform" draws from U[-1/sqrt(d), 1/sqrt(d)], biases included."""
        width, dtype = self.rows[0].shape[-1], jnp.result_type(float)
        shapes = {"weight": (width, self.classes), **({"bias": (self.classes,)} if self.intercept else {})}
        if self.initial == "zeros":
            return {name: np.zeros(shape, dtype) for name, shape in shapes.items()}
        keys, bound = jax.random.split(key, len(shapes)), width**-0.5
        draws = zip(shapes.items(), keys, strict=True)
        return {name: jax.random.uniform(key, shape, dtype, -bound, bound) for (name, shape), key in draws}

    def constants(self):
        """Return mu_i = mu and the bound L_i = lambda_max(B_i^T B_i) / (2 n_i) + mu, B_i = A_i, or [A_i, 1] with an intercept.

        The Hessian diag(p) - p p^T of the loss in the logits has no eigenvalue above 1/2 (Boehning, 1992).
        """
        return Constants(np.full(self.clients, self.mu), top_eigenvalues(self, self.intercept) / 2 + self.mu)
