"""OASIS: scaled by the Hessian's diagonal, with a rate that finds itself."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from turnout.core.errors import UserError
from turnout.core.records import Positive, Proper, record, static
from turnout.core.tree import add, zeros
from turnout.optimisers.base import Optimiser


class State(NamedTuple):
    """Steps made, the last x, its gradient and diagonal D, and the last rate with its ratio theta to the one before."""

    number: Int[Array, ""]
    x: PyTree
    gradient: PyTree
    diagonal: PyTree
    rate: Float[Array, ""]
    theta: Float[Array, ""]


@record
class Oasis(Optimiser):
    """x <- x - eta_k g / D', D' = max(|D|, alpha), D <- beta2 D + (1 - beta2) z * (H z), z random signs, D = z * (H z) at first,

        eta_k = min(sqrt(1 + theta) eta, |x - last x|_D' / (2 |g - last g|_1/D')), theta <- eta_k / eta,

    eta being the last rate, at first `lr`. Jahani et al. (2022, Algorithm 1). Where gradients are of batches, their differences
    being mostly noise, `adaptive` = false keeps eta_k = `lr`. A step needs two queries.
    """

    beta2: Proper = 0.99
    alpha: Positive = 0.01
    adaptive: bool = static(default=True)

    needs_hessian = True

    def start(self, x):
        first = jnp.asarray(self.lr, jnp.result_type(float))
        return State(jnp.zeros((), "int32"), x, zeros(x), zeros(x), first, jnp.zeros_like(first))

    def update(self, x, gradient, state, curvature):
        if curvature is None:
            raise UserError("Oasis needs products with the Hessian, which there are none of here: take another optimiser")
        first = state.number == 0
        keep = jnp.where(first, 0.0, self.beta2)
        diagonal = jax.tree.map(
            lambda d, new: keep.astype(d.dtype) * d + (1 - keep).astype(d.dtype) * new, state.diagonal, curvature(state.number)
        )
        scale = jax.tree.map(lambda d: jnp.maximum(jnp.abs(d), self.alpha), diagonal)
        rate = jnp.where(first | (not self.adaptive), state.rate, self._rate(x, gradient, state, scale))
        x_new = jax.tree.map(lambda x, g, d: x - rate.astype(x.dtype) * g / d, x, gradient, scale)
        # Of the first rate theta is infinite: then the second one is as its bound by the curvature says.
        theta = jnp.where(first, jnp.inf, rate / state.rate)
        return x_new, State(state.number + 1, x, gradient, diagonal, rate, theta)

    def _rate(self, x, gradient, state: State, scale) -> Float[Array, ""]:
        """Return eta_k; the last one where the gradient did not change."""
        moved, turned = add(x, state.x, -1.0), add(gradient, state.gradient, -1.0)
        far = jnp.sqrt(_sum(jax.tree.map(lambda s, d: s * s * d, moved, scale)))
        change = jnp.sqrt(_sum(jax.tree.map(lambda y, d: y * y / d, turned, scale)))
        useful = change > 0
        bound = jnp.where(useful, far / (2 * jnp.where(useful, change, 1)), state.rate)
        return jnp.minimum(jnp.sqrt(1 + state.theta) * state.rate, bound)


def _sum(tree: PyTree) -> Float[Array, ""]:
    """The sum of all entries."""
    return jnp.sum(jnp.stack([jnp.sum(leaf) for leaf in jax.tree.leaves(tree)]))
