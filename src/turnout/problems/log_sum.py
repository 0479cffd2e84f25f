"""Quadratics with the log-sum penalty, which is nonconvex and favours zeros."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from turnout.core.records import NonNegative, record
from turnout.problems.quadratic import Quadratic, extremes


@record
class LogSum(Quadratic):
    """f_i(x) = x^T A_i x / 2 - <b_i, x> + sum_k log(1 + alpha |x_k|), x [d] (Cost-aware client selection, section 7).

    Where an x_k is 0 the penalty has no derivative; alpha sign(x_k) / (1 + alpha |x_k|) is 0 there.

    Args:
        rows: (A, b) as in `Quadratic`.
        offsets: 0, ..., n.
        population: The clients.
        alpha: Sharpness of the penalty, >= 0.
    """

    alpha: NonNegative

    strongly_convex: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = False

    @classmethod
    def of(
        cls, matrices: Float[np.ndarray, "n d ..."], vectors: Float[np.ndarray, "n d"], weights=None, alpha: float = 10.0
    ) -> "LogSum":
        """Build the problem of n clients; see `Quadratic.of`.

        Args:
            matrices: A_i [n, d, d], or their diagonals [n, d].
            vectors: v_i [n, d].
            weights: lambda_i up to a factor [n]; None for equal weights.
            alpha: alpha of the penalty.
        """
        return cls(**vars(Quadratic.of(matrices, vectors, weights)), alpha=alpha)

    def start(self, key):
        """Return 10 in all coordinates, the upper end of the centres in `data.quadratics`; x_k = 0 would not be left."""
        return np.full_like(super().start(key), 10.0)

    def regulariser(self, x):
        # JAX takes 1 for the derivative of abs at 0.
        return jnp.sum(jnp.log1p(self.alpha * x * jnp.sign(x)))

    def curvatures(self, matrices):
        """Return lambda_min(A) - alpha^2 and lambda_max(A): the penalty's curvature is -alpha^2 / (1 + alpha |x_k|)^2."""
        least, largest = extremes(matrices)
        return least - self.alpha**2, largest

    def constants(self):
        """Return mu_i = lambda_min(A_i) - alpha^2, which may be negative, and L_i = max(lambda_max(A_i), -mu_i).

        They hold between points with equal signs only: the gradient jumps where an x_k changes its sign.
        """
        return super().constants()
