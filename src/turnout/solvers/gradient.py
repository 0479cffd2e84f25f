"""First-order cohort solvers with fixed steps."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.records import record
from turnout.solvers.base import Asked, CohortSolver, exchange


@record
class GradientDescent(CohortSolver):
    """y <- y - grad phi(y) / (W L + 1 / gamma)."""

    def start(self, phi, memory):
        return phi.centre

    def step(self, ask, phi, state):
        gradient = phi.gradient(state, exchange(ask, phi, self.gradient, phi.unravel(state)).average())
        return Asked(state - gradient / self.bounds(phi)[1], state, gradient)

    def solution(self, state):
        return state


class Momentum(NamedTuple):
    y: Float[Array, " d"]
    z: Float[Array, " d"]


@record
class AcceleratedGradient(CohortSolver):
    """y' = z - grad phi(z) / L', z' = y' + beta (y' - y), beta = (1 - sqrt q) / (1 + sqrt q), q = mu' / L'.

    mu' = W mu + 1 / gamma and L' = W L + 1 / gamma are phi's constants: Nesterov's method for strongly convex functions
    (Lectures on Convex Optimization, 2018, scheme 2.2.22).
    """

    def start(self, phi, memory):
        return Momentum(phi.centre, phi.centre)

    def step(self, ask, phi, state):
        convexity, smoothness = self.bounds(phi)
        root = jnp.sqrt(convexity / smoothness)
        gradient = phi.gradient(state.z, exchange(ask, phi, self.gradient, phi.unravel(state.z)).average())
        y = state.z - gradient / smoothness
        return Asked(Momentum(y, y + (1 - root) / (1 + root) * (y - state.y)), state.z, gradient)

    def solution(self, state):
        return state.y
