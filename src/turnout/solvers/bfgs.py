"""A quasi-Newton cohort solver that pays for its own line search."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from turnout.records import record
from turnout.solvers.base import CohortSolver

DECREASE = 0.1
"""The share of the decrease that the slope promises which a step must bring."""

SLACK = 1e-6
"""A change of phi below this share of it counts as none: there the slopes, which rounding spoils less, decide."""


class QuasiNewton(NamedTuple):
    y: Float[Array, " d"]
    value: Float[Array, ""]
    gradient: Float[Array, " d"]
    inverse: Float[Array, "d d"]
    step: Float[Array, " d"]
    updated: Bool[Array, ""]


@record
class Bfgs(CohortSolver):
    """y <- y - H grad phi(y), with H the BFGS approximation of the inverse Hessian (Nocedal and Wright, Algorithm 6.1).

    Each point asked about is a trial: where phi did not decrease enough, by Armijo's condition or near the minimiser by that
    of Hager and Zhang (2005, equation 5), the next trial halves the step, so that the line search costs exchanges like any
    other step. H starts at 1 / (L + 1 / gamma) and takes the scale of the first pair.
    """

    def start(self, x, convexity):
        infinite = jnp.asarray(jnp.inf, x.dtype)
        inverse = jnp.eye(x.size, dtype=x.dtype) / (self.smoothness + convexity)
        zero = jnp.zeros_like(x)
        return QuasiNewton(x, infinite, zero, inverse, zero, jnp.asarray(False))

    def query(self, state):
        return state.y + state.step

    def update(self, state, value, gradient):
        slope, new_slope = jnp.vdot(state.gradient, state.step), jnp.vdot(gradient, state.step)
        armijo = value <= state.value + DECREASE * slope
        level = value <= state.value + SLACK * jnp.abs(value)
        enough = armijo | (level & (new_slope <= (2 * DECREASE - 1) * slope))

        def accept():
            started = jnp.isfinite(state.value)
            inverse, updated = _learn(state, gradient - state.gradient)
            inverse = jnp.where(started, inverse, state.inverse)
            y = self.query(state)
            return QuasiNewton(y, value, gradient, inverse, -inverse @ gradient, jnp.where(started, updated, False))

        def reject():
            return state._replace(step=state.step / 2)

        return jax.tree.map(lambda a, b: jnp.where(enough, a, b), accept(), reject())


def _learn(state: QuasiNewton, change: Float[Array, " d"]):
    """Return H after the pair (step, change of gradient), and whether it has been scaled; a pair without curvature is skipped."""
    step, curvature = state.step, jnp.vdot(state.step, change)
    useful = curvature > jnp.finfo(step.dtype).eps * jnp.vdot(change, change)
    rho = 1 / jnp.where(useful, curvature, 1)
    scale = curvature / jnp.where(useful, jnp.vdot(change, change), 1)
    start = jnp.where(state.updated, state.inverse, scale * jnp.eye(step.size, dtype=step.dtype))
    product = start @ change
    inverse = (
        start
        - rho * (jnp.outer(step, product) + jnp.outer(product, step))
        + rho * (rho * jnp.vdot(change, product) + 1) * jnp.outer(step, step)
    )
    return jnp.where(useful, inverse, state.inverse), useful | state.updated
