"""The nonlinear conjugate gradient method as a cohort solver."""

import jax.numpy as jnp

from turnout.core.records import record
from turnout.core.tree import positive
from turnout.solvers.line_search import LineSearch

FLAT = 0.3
"""A point is accepted once the slope along the step has fallen to this share of its first size."""


@record
class ConjugateGradient(LineSearch):
    """Nonlinear conjugate gradients with a line search (Hager and Zhang, 2005, equations 1.3 and 1.4).

    y <- y + a d, d <- -g + beta d, beta = (u - 2 d |u|^2 / <d, u>) . g / <d, u>, u being the change of g = grad phi(y).

    Where the slope at a trial is still too steep, the next trial is the zero of the line through both slopes. The first trial of
    each direction aims at the last decrease.

    Args:
        smoothness: L; None means max_i L_i of the problem.
        convexity: mu; None means min_i mu_i of the problem.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(4), t.solvers.ConjugateGradient(), gamma=1.0, inner=4), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        20
    """

    def initial_memory(self, phi):
        return None

    def enough(self, state, value, gradient):
        slope, new_slope = jnp.vdot(state.gradient, state.step), jnp.vdot(gradient, state.step)
        return super().enough(state, value, gradient) & (jnp.abs(new_slope) <= FLAT * jnp.abs(slope))

    def shorten(self, state, gradient):
        slope, new_slope = jnp.vdot(state.gradient, state.step), jnp.vdot(gradient, state.step)
        bend = new_slope - slope
        return jnp.clip(jnp.where(bend > 0, -slope / positive(bend), 2), 0.1, 10) * state.step

    def direction(self, ask, phi, state, new, reply):
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
