"""Newton steps in a metric that is sketched from the curvature along the clients' gradients."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import NonNegative, Positive, Share, record
from turnout.core.replies import Replies
from turnout.core.tree import positive
from turnout.solvers.base import CohortSolver, Proximal, StepResult, exchange


class Sketch(NamedTuple):
    """Discounted sums over exchanges: of the sketches of the curvature, and of ones."""

    curvature: Float[Array, "d d"]
    count: Float[Array, ""]


class SketchedState(NamedTuple):
    """The iterate y and the sketch."""

    y: Float[Array, " d"]
    sketch: Sketch


@record
class SketchedNewton(CohortSolver):
    """Newton steps in a metric that follows the curvature along the clients' gradients, one exchange each.

    y <- y - (B + I / gamma)^-1 grad phi(y), B = theta I + scale Q / q, theta = mu + floor (L - mu), with Q <- decay Q +
    sum_{i in S} w_i kappa_i u_i u_i^T and q <- decay q + 1 in each exchange, also from cohort to cohort;
    u_i = grad l_i(y) / |grad l_i(y)|, kappa_i = u_i . grad^2 l_i(y) u_i, l_i = f_i - (mu / 2) |.|^2, w_i = lambda_i / p_i.

    A reply has kappa_i, the curvature along the client's gradient, as one more number.

    Args:
        smoothness: L; None means max_i L_i of the problem.
        convexity: mu; None means min_i mu_i of the problem.
        floor: Share of L - mu in theta.
        scale: Factor of the sketch.
        decay: Discount of what is known when an exchange begins.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(4), t.solvers.SketchedNewton(), gamma=1.0, inner=4), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        20
    """

    floor: Positive = 0.003
    scale: NonNegative = 0.3
    decay: Share = 0.5

    needs_hessian = True

    def memory(self, x):
        return Sketch(jnp.zeros((x.size, x.size), x.dtype), jnp.zeros((), x.dtype))

    def start(self, phi, memory):
        return SketchedState(phi.centre, memory)

    def step(self, ask, phi, state):
        replies = exchange(ask, phi, self.gradient_and_curvature, phi.unravel(state.y))
        gradient = phi.gradient(state.y, replies.average()[0])
        answered = jnp.any(replies.answered)
        sketch = jax.lax.cond(answered, lambda: self._updated(state.sketch, replies, state.y), lambda: state.sketch)
        y = state.y - jnp.linalg.solve(self._metric(sketch, phi), gradient)
        return StepResult(SketchedState(y, sketch), state.y, gradient)

    def solution(self, state):
        return state.y

    def keep(self, state):
        return state.sketch

    def _metric(self, sketch: Sketch, phi: Proximal) -> Float[Array, "d d"]:
        """B + I / gamma; B is theta I before the first reply."""
        convexity, smoothness = jnp.asarray(self.convexity), jnp.asarray(self.smoothness)
        theta = convexity + self.floor * (smoothness - convexity)
        identity = jnp.eye(len(sketch.curvature), dtype=sketch.curvature.dtype)
        return (theta + phi.convexity) * identity + self.scale * sketch.curvature / positive(sketch.count)

    def _updated(self, sketch: Sketch, replies: Replies, y: Float[Array, " d"]) -> Sketch:
        """The sketch with the curvature in `replies`."""
        decay = jnp.asarray(self.decay)
        return Sketch(decay * sketch.curvature + self._sketch(replies, y), decay * sketch.count + 1)

    def _sketch(self, replies: Replies, y: Float[Array, " d"]) -> Float[Array, "d d"]:
        """sum w_i kappa_i u_i u_i^T over the clients that answered."""
        gradients, curvature = replies.values
        loss = jax.vmap(lambda g: ravel_pytree(g)[0] - jnp.asarray(self.convexity) * y)(gradients)
        square = jnp.sum(loss**2, axis=1)
        weight = jnp.where(replies.answered & (square > 0), replies.cohort.weight * curvature, 0)
        loss = jnp.where(weight[:, None] > 0, loss, 0)
        return (loss.T * (weight / positive(square))[None]) @ loss

    @on_client
    def gradient_and_curvature(self, client, x):
        """The gradient of f_i at x, and kappa_i."""
        gradient = client.grad(x)
        flat, unravel = ravel_pytree(gradient)
        convexity = jnp.asarray(self.convexity)
        loss = flat - convexity * ravel_pytree(x)[0]
        square = jnp.vdot(loss, loss)
        product = jnp.vdot(loss, ravel_pytree(client.hvp(x, unravel(loss)))[0])
        return Done((gradient, jnp.where(square > 0, product / positive(square) - convexity, 0)), queries=2)
