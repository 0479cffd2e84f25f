"""Apollo, a diagonal quasi-Newton method."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from turnout.core.records import Positive, Proper, record
from turnout.core.tree import zeros
from turnout.optimisers.base import Optimiser


class ApolloState(NamedTuple):
    """The number of steps, and like the parameters the mean gradient m, the diagonal B and the last direction d."""

    number: Int[Array, ""]
    mean: PyTree
    hessian: PyTree
    direction: PyTree


@record
class Apollo(Optimiser):
    """Apollo: x <- x - lr d, d <- m / max(|B|, 1), B a diagonal approximation of the Hessian (Ma, 2020, Algorithm 1, sigma = 1).

    For each leaf of the parameters, in step t = 1, 2, ...,

        m+ = m + a (g - m), a = (1 - beta) / (1 - beta^t),    u = d / (|d|_4 + epsilon),
        B+ = B - (<u, m+ - m> / (|d|_4 + epsilon) + <u, B u>) u^2,

    which fits B to the curvature along the last direction d. The first steps, where B = 0, are along the gradient: start with a
    small lr (`schedules.WarmUp`).

    Args:
        lr: Step size, > 0.
        beta: Weight of the past in m, in [0, 1).
        epsilon: Added to the norm of d, > 0.
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> optimiser, x = t.optimisers.Apollo(0.25), jnp.array([1.0, -2.0])
        >>> x, state = optimiser.step(x, 2 * x, optimiser.start(x))
        >>> x.round(2).tolist() == [0.5, -1.0]
        True
    """

    beta: Proper = 0.9
    epsilon: Positive = 1e-4

    def start(self, x):
        return ApolloState(jnp.zeros((), "int32"), zeros(x), zeros(x), zeros(x))

    def update(self, x, gradient, state, curvature):
        number = state.number + 1
        dtype = jnp.result_type(float)
        rate = (1 - self.beta) / (1 - jnp.asarray(self.beta, dtype) ** number.astype(dtype))
        leaves = jax.tree.map(lambda *leaf: self._leaf_step(rate, *leaf), gradient, state.mean, state.hessian, state.direction)
        m, b, d = jax.tree.transpose(jax.tree.structure(x), jax.tree.structure((0, 0, 0)), leaves)
        return jax.tree.map(lambda x, d: x - self.lr * d, x, d), ApolloState(number, m, b, d)

    def _leaf_step(self, rate, g, m, b, d) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
        """Return the next m, B and d of one leaf."""
        change = rate.astype(g.dtype) * (g - m)
        length = jnp.sum(d**4) ** 0.25 + self.epsilon
        u = d / length
        b = b - (jnp.sum(u * change) / length + jnp.sum(b * u * u)) * u * u
        m = m + change
        return m, b, m / jnp.maximum(jnp.abs(b), 1)
