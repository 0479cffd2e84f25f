"""The nonlinear conjugate gradient method as a cohort solver."""

import jax.numpy as jnp

from turnout.core.records import record
from turnout.core.tree import positive
from turnout.solvers.line_search import LineSearch

FLAT = 0.3
"""A point is taken once the slope along the step has fallen to this share of its first size."""


@record
class ConjugateGradient(LineSearch):
    """y <- y + a d, d <- -g + beta d, beta = (u - 2 d |u|^2 / <d, u>) . g / <d, u>, u the change of g = grad phi(y).

    The directions of Hager and Zhang (2005, equations 1.3 and 1.4). A trial at a is followed, where the slope has not become
    flat enough, by the zero of the line through both slopes; the first trial of each direction aims at the last decrease.
    """

    def learn(self, phi):
        return None

    def enough(self, state, value, gradient):
        slope, new_slope = jnp.vdot(state.gradient, state.step), jnp.vdot(gradient, state.step)
        return super().enough(state, value, gradient) & (jnp.abs(new_slope) <= FLAT * jnp.abs(slope))

    def shorten(self, state, gradient):
        slope, new_slope = jnp.vdot(state.gradient, state.step), jnp.vdot(gradient, state.step)
        bend = new_slope - slope
        return jnp.clip(jnp.where(bend > 0, -slope / positive(bend), 2), 0.1, 10) * state.step

    def direct(self, ask, phi, state, new, reply):
        d, change = state.step, new.gradient - state.gradient
        curvature = jnp.vdot(d, change)
        follow = jnp.isfinite(state.value) & (curvature > 0)
        safe = jnp.where(follow, curvature, 1)
        # The length of d cancels in beta d, so that the last step serves as the last direction.
        beta = jnp.vdot(change - 2 * d * jnp.vdot(change, change) / safe, new.gradient) / safe
        direction = -new.gradient + beta * d
        slope, last = jnp.vdot(new.gradient, direction), jnp.vdot(state.gradient, d)
        follow = follow & (slope < 0)
        return None, jnp.where(follow, last / jnp.where(follow, slope, -1) * direction, self.descent(phi, new.gradient))
