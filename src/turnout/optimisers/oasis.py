"""OASIS: steps scaled by the Hessian's diagonal, with an adaptive step size."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from turnout.core.errors import UserError
from turnout.core.records import Positive, Proper, record, static
from turnout.core.tree import add, zeros
from turnout.optimisers.base import Optimiser


class OasisState(NamedTuple):
    """The number of steps, the last x, its gradient and diagonal D, the last eta, and theta, its ratio to the one before."""

    number: Int[Array, ""]
    x: PyTree
    gradient: PyTree
    diagonal: PyTree
    rate: Float[Array, ""]
    theta: Float[Array, ""]


@record
class Oasis(Optimiser):
    """OASIS: x <- x - eta_k g / D', D' = max(|D|, alpha), D <- beta2 D + (1 - beta2) z * (H z) (Jahani et al., 2022).

    Algorithm 1 there. z are random signs, and D = z * (H z) at first. With the last step size eta, `lr` at first,

        eta_k = min(sqrt(1 + theta) eta, |x - last x|_D' / (2 |g - last g|_1/D')), theta <- eta_k / eta.

    A step costs two queries. The problem must have second derivatives.

    Args:
        lr: First step size, > 0.
        beta2: Weight of the past in D, in [0, 1).
        alpha: Lower bound of D', > 0.
        adaptive: Whether the step size adapts. Take False for batches, where differences of gradients are mostly noise.
        clip: Largest norm of the gradient over all leaves; larger gradients are scaled down to it. None never clips.

    Raises:
        UserError: If the problem has no second derivatives, or the server, which has no Hessian, uses it.

    Examples:
        >>> import turnout as t
        >>> algorithm = t.FedOpt(t.Nice(2), t.optimisers.Oasis(0.1), t.optimisers.Sgd(1.0), steps=1)
        >>> trace = t.run(algorithm, t.Quadratic.random(clients=4, dimension=3, seed=0), rounds=3)
        >>> trace.ledger.totals()["queries_total"]  # 3 rounds, 2 clients, 2 queries
        12
    """

    beta2: Proper = 0.99
    alpha: Positive = 0.01
    adaptive: bool = static(default=True)

    needs_hessian = True

    def start(self, x):
        first = jnp.asarray(self.lr, jnp.result_type(float))
        return OasisState(jnp.zeros((), "int32"), x, zeros(x), zeros(x), first, jnp.zeros_like(first))

    def update(self, x, gradient, state, curvature):
        if curvature is None:
            raise UserError("Oasis needs products with the Hessian, which are not available here: take another optimiser")
        first = state.number == 0
        keep = jnp.where(first, 0.0, self.beta2)
        diagonal = jax.tree.map(
            lambda d, new: keep.astype(d.dtype) * d + (1 - keep).astype(d.dtype) * new, state.diagonal, curvature(state.number)
        )
        scale = jax.tree.map(lambda d: jnp.maximum(jnp.abs(d), self.alpha), diagonal)
        rate = jnp.where(first | (not self.adaptive), state.rate, self._rate(x, gradient, state, scale))
        x_new = jax.tree.map(lambda x, g, d: x - rate.astype(x.dtype) * g / d, x, gradient, scale)
        # An infinite theta after the first step leaves the second step size to the curvature bound.
        theta = jnp.where(first, jnp.inf, rate / state.rate)
        return x_new, OasisState(state.number + 1, x, gradient, diagonal, rate, theta)

    def _rate(self, x, gradient, state: OasisState, scale) -> Float[Array, ""]:
        """Return eta_k, or the last one if the gradient did not change."""
        step, change = add(x, state.x, -1.0), add(gradient, state.gradient, -1.0)
        distance = jnp.sqrt(_sum(jax.tree.map(lambda s, d: s * s * d, step, scale)))
        curvature = jnp.sqrt(_sum(jax.tree.map(lambda y, d: y * y / d, change, scale)))
        useful = curvature > 0
        bound = jnp.where(useful, distance / (2 * jnp.where(useful, curvature, 1)), state.rate)
        return jnp.minimum(jnp.sqrt(1 + state.theta) * state.rate, bound)


def _sum(tree: PyTree) -> Float[Array, ""]:
    """Return the sum of all entries."""
    return jnp.sum(jnp.stack([jnp.sum(leaf) for leaf in jax.tree.leaves(tree)]))
