"""Apollo: a diagonal quasi-Newton method."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from turnout.core.records import Positive, Proper, record
from turnout.core.tree import zeros
from turnout.optimisers.base import Optimiser


class State(NamedTuple):
    """Steps made, and like the parameters the mean gradient m, the diagonal B in the place of a Hessian, the last direction d."""

    number: Int[Array, ""]
    mean: PyTree
    hessian: PyTree
    direction: PyTree


@record
class Apollo(Optimiser):
    """x <- x - lr d, d <- m / max(|B|, 1), with for each leaf of the parameters

        m+ = m + a (g - m), a = (1 - beta) / (1 - beta^t),    u = d / (|d|_4 + epsilon),
        B+ = B - (<u, m+ - m> / (|d|_4 + epsilon) + <u, B u>) u^2,

    which fits B to what the last direction d showed of the curvature. Ma (2020, Algorithm 1, sigma = 1). The first steps, where
    B = 0, are along the gradient: a rate that rises from small ones is recommended.
    """

    beta: Proper = 0.9
    epsilon: Positive = 1e-4

    def start(self, x):
        return State(jnp.zeros((), "int32"), zeros(x), zeros(x), zeros(x))

    def update(self, x, gradient, state, curvature):
        number = state.number + 1
        dtype = jnp.result_type(float)
        rate = (1 - self.beta) / (1 - jnp.asarray(self.beta, dtype) ** number.astype(dtype))
        learn = jax.tree.map(lambda *leaf: self._learn(rate, *leaf), gradient, state.mean, state.hessian, state.direction)
        m, b, d = jax.tree.transpose(jax.tree.structure(x), jax.tree.structure((0, 0, 0)), learn)
        return jax.tree.map(lambda x, d: x - self.lr * d, x, d), State(number, m, b, d)

    def _learn(self, rate, g, m, b, d) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
        """Return m, B and d of one leaf."""
        change = rate.astype(g.dtype) * (g - m)
        length = jnp.sum(d**4) ** 0.25 + self.epsilon
        u = d / length
        b = b - (jnp.sum(u * change) / length + jnp.sum(b * u * u)) * u * u
        m = m + change
        return m, b, m / jnp.maximum(jnp.abs(b), 1)
