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
from turnout.problems.federate import federate_classes


@record
class Multinomial(Classifier):
    """A `Classifier` with logits(a) = W^T a + c; two classes are two columns of W.

    Parameters are {"weight": W [d, classes], "bias": c [classes]}, without a bias where `intercept` is false; `initial` says
    where they start.
    """

    initial: str = static(default="zeros")
    intercept: bool = static(default=True)

    strongly_convex: ClassVar[bool] = True

    def __post_init__(self):
        if self.initial not in ("zeros", "uniform"):
            raise unknown("initial", str(self.initial), ("zeros", "uniform"))

    @classmethod
    def of(cls, dataset, split, mu: float = 0.0, weights=None, initial: str = "zeros", intercept: bool = True) -> "Multinomial":
        """Cut `dataset` into clients; its classes are numbered in increasing order of their labels."""
        return cls(**federate_classes(dataset.flat(), split, weights), mu=mu, initial=initial, intercept=intercept)

    def logits(self, x, features):
        return affine(x, features)

    def start(self, key):
        """Return zeros, or with `initial` = "uniform" independent draws from [-1/sqrt d, 1/sqrt d], biases included."""
        width, dtype = self.rows[0].shape[-1], jnp.result_type(float)
        shapes = {"weight": (width, self.classes), **({"bias": (self.classes,)} if self.intercept else {})}
        if self.initial == "zeros":
            return {name: jnp.zeros(shape, dtype) for name, shape in shapes.items()}
        keys, bound = jax.random.split(key, len(shapes)), width**-0.5
        draws = zip(shapes.items(), keys, strict=True)
        return {name: jax.random.uniform(key, shape, dtype, -bound, bound) for (name, shape), key in draws}

    def constants(self):
        """mu_i = mu and the bound L_i = lambda_max(B_i^T B_i) / (2 n_i) + mu, with B_i = A_i, or [A_i, 1] with an intercept.

        No Hessian diag(p) - p p^T of the loss in the logits has an eigenvalue above 1/2 (Boehning, 1992).
        """
        return Constants(np.full(self.clients, self.mu), top_eigenvalues(self, self.intercept) / 2 + self.mu)
