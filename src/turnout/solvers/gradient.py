"""First-order cohort solvers with fixed steps."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.records import record
from turnout.solvers.base import CohortSolver


class Descent(NamedTuple):
    y: Float[Array, " d"]
    step: Float[Array, ""]


@record
class GradientDescent(CohortSolver):
    """y <- y - grad phi(y) / (L + 1 / gamma)."""

    def start(self, x, convexity):
        return Descent(x, 1 / (self.smoothness + convexity) * jnp.ones((), x.dtype))

    def query(self, state):
        return state.y

    def update(self, state, value, gradient):
        return state._replace(y=state.y - state.step * gradient)


class Momentum(NamedTuple):
    y: Float[Array, " d"]
    z: Float[Array, " d"]
    step: Float[Array, ""]
    momentum: Float[Array, ""]


@record
class AcceleratedGradient(CohortSolver):
    """y' = z - grad phi(z) / (L + 1/gamma), z' = y' + beta (y' - y), beta = (1 - sqrt q) / (1 + sqrt q), q = mu / L of phi.

    Nesterov's method for strongly convex functions (Lectures on Convex Optimization, 2018, scheme 2.2.22).
    """

    def start(self, x, convexity):
        smoothness = self.smoothness + convexity
        root = jnp.sqrt(jnp.asarray((self.convexity + convexity) / smoothness, x.dtype))
        return Momentum(x, x, 1 / smoothness * jnp.ones((), x.dtype), (1 - root) / (1 + root))

    def query(self, state):
        return state.z

    def update(self, state, value, gradient):
        y = state.z - state.step * gradient
        return state._replace(y=y, z=y + state.momentum * (y - state.y))
