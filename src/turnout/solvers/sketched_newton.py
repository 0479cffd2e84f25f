"""Newton steps in a metric that is sketched from the first cohort, one exchange each."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import NonNegative, Positive, record
from turnout.core.replies import Replies
from turnout.core.tree import positive
from turnout.solvers.base import CohortSolver, StepResult, exchange


class SketchedState(NamedTuple):
    """The iterate y, the metric B, and whether B is known."""

    y: Float[Array, " d"]
    metric: Float[Array, "d d"]
    has_metric: Bool[Array, ""]


@record
class SketchedNewton(CohortSolver):
    """Newton steps in a metric that is sketched from the first cohort S.

    y <- y - (B + I / gamma)^-1 grad phi(y), B = theta I + scale sum_{i in S} w_i kappa_i u_i u_i^T, theta = mu + floor (L - mu),
    u_i = grad l_i(x_0) / |grad l_i(x_0)|, kappa_i = u_i . grad^2 l_i(x_0) u_i, l_i = f_i - (mu / 2) |.|^2, w_i = lambda_i / p_i.

    The first exchange brings kappa_i, the curvature along the client's gradient, for one more scalar. B serves for the whole run.

    Args:
        smoothness: L; None means max_i L_i of the problem.
        convexity: mu; None means min_i mu_i of the problem.
        floor: Share of L - mu in theta.
        scale: Factor of the sketch, for the decrease of the curvature from x_0 to x*.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(4), t.solvers.SketchedNewton(), gamma=1.0, inner=4), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        20
    """

    floor: Positive = 0.01
    scale: NonNegative = 0.7

    needs_hessian = True

    def memory(self, x):
        convexity, smoothness = jnp.asarray(self.convexity), jnp.asarray(self.smoothness)
        theta = convexity + self.floor * (smoothness - convexity)
        return theta * jnp.eye(x.size, dtype=x.dtype), jnp.asarray(False)

    def start(self, phi, memory):
        return SketchedState(phi.centre, *memory)

    def step(self, ask, phi, state):
        has_metric = state.has_metric
        replies = exchange(ask, phi, self.gradient_and_curvature, (phi.unravel(state.y), ~has_metric))
        gradient, _ = replies.average()
        metric = jax.lax.cond(
            has_metric, lambda: state.metric, lambda: state.metric + self.scale * self._sketch(replies, state.y)
        )
        gradient = phi.gradient(state.y, gradient)
        y = state.y - jnp.linalg.solve(metric + phi.convexity * jnp.eye(state.y.size, dtype=state.y.dtype), gradient)
        return StepResult(SketchedState(y, metric, has_metric | jnp.any(replies.answered)), state.y, gradient)

    def solution(self, state):
        return state.y

    def keep(self, state):
        return state.metric, state.has_metric

    def _sketch(self, replies: Replies, y: Float[Array, " d"]) -> Float[Array, "d d"]:
        """sum w_i kappa_i u_i u_i^T over the clients that answered."""
        gradients, curvature = replies.values
        loss = jax.vmap(lambda g: ravel_pytree(g)[0] - jnp.asarray(self.convexity) * y)(gradients)
        square = jnp.sum(loss**2, axis=1)
        weight = jnp.where(replies.answered & (square > 0), replies.cohort.weight * curvature, 0)
        loss = jnp.where(weight[:, None] > 0, loss, 0)
        return (loss.T * (weight / positive(square))[None]) @ loss

    @on_client
    def gradient_and_curvature(self, client, message):
        """The gradient of f_i at x, and kappa_i if `wanted`, else 0."""
        x, wanted = message
        gradient = client.grad(x)
        flat, unravel = ravel_pytree(gradient)
        convexity = jnp.asarray(self.convexity)

        def curvature(loss):
            square = jnp.vdot(loss, loss)
            product = jnp.vdot(loss, ravel_pytree(client.hvp(x, unravel(loss)))[0])
            return jnp.where(square > 0, product / positive(square) - convexity, 0)

        loss = flat - convexity * ravel_pytree(x)[0]
        kappa = client.cond(wanted, curvature, lambda _: jnp.zeros((), flat.dtype), loss)
        return Done((gradient, kappa), queries=1 + wanted.astype("int32"))
