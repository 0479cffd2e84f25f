"""Quadratics with the log-sum penalty, which favours zeros and is not convex."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from turnout.core.records import NonNegative, record
from turnout.problems.quadratic import Quadratic, extremes


@record
class LogSum(Quadratic):
    """f_i(x) = x^T A_i x / 2 - <b_i, x> + sum_k log(1 + alpha |x_k|), x of shape [d] (Cost-aware client selection, section 7).

    It has no derivative where an x_k is 0: there sign(0) = 0 makes alpha sign(x_k) / (1 + alpha |x_k|), that of the penalty, 0.
    """

    alpha: NonNegative

    strongly_convex: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = False

    @classmethod
    def of(
        cls, matrices: Float[np.ndarray, "n d ..."], vectors: Float[np.ndarray, "n d"], weights=None, alpha: float = 10.0
    ) -> "LogSum":
        """Build the problem as `Quadratic.of` does."""
        return cls(**vars(Quadratic.of(matrices, vectors, weights)), alpha=alpha)

    def start(self, key):
        """10 in all coordinates, the corner of the centres of `data.quadratics`: from 0 some x_k would never leave the kink."""
        return jnp.full_like(super().start(key), 10.0)

    def regulariser(self, x):
        # JAX takes 1 for the derivative of abs at 0.
        return jnp.sum(jnp.log1p(self.alpha * x * jnp.sign(x)))

    def curvatures(self, matrices):
        """Between lambda_min(A) - alpha^2 and lambda_max(A), for -alpha^2 < -alpha^2 / (1 + alpha |x_k|)^2 < 0."""
        least, largest = extremes(matrices)
        return least - self.alpha**2, largest

    def constants(self):
        """mu_i and L_i between points of equal signs: where an x_k changes its sign the gradient jumps, and no L_i is enough.

        mu_i = lambda_min(A_i) - alpha^2, a curvature that may be negative, and L_i = max(lambda_max(A_i), -mu_i).
        """
        return super().constants()
