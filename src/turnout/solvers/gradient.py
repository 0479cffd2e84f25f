"""First-order cohort solvers with fixed steps."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.records import record
from turnout.solvers.base import CohortSolver, StepResult, exchange


@record
class GradientDescent(CohortSolver):
    """Gradient descent: y <- y - grad phi(y) / (W L + 1 / gamma).

    Args:
        smoothness: L; None means max_i L_i of the problem.
        convexity: mu; None means min_i mu_i of the problem.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(4), t.solvers.GradientDescent(), gamma=1.0, inner=4), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        20
    """

    def start(self, phi, memory):
        return phi.centre

    def step(self, ask, phi, state):
        gradient = phi.gradient(state, exchange(ask, phi, self.gradient, phi.unravel(state)).average())
        return StepResult(state - gradient / self.bounds(phi)[1], state, gradient)

    def solution(self, state):
        return state


class Momentum(NamedTuple):
    """The iterate y and the extrapolated point z."""

    y: Float[Array, " d"]
    z: Float[Array, " d"]


@record
class AcceleratedGradient(CohortSolver):
    """Nesterov's method for strongly convex functions (Lectures on Convex Optimization, 2018, scheme 2.2.22).

    y' = z - grad phi(z) / L', z' = y' + beta (y' - y), beta = (1 - sqrt q) / (1 + sqrt q), q = mu' / L', with phi's constants
    mu' = W mu + 1 / gamma and L' = W L + 1 / gamma.

    Args:
        smoothness: L; None means max_i L_i of the problem.
        convexity: mu; None means min_i mu_i of the problem.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(4), t.solvers.AcceleratedGradient(), gamma=1.0, inner=4), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        20
    """

    def start(self, phi, memory):
        return Momentum(phi.centre, phi.centre)

    def step(self, ask, phi, state):
        convexity, smoothness = self.bounds(phi)
        root = jnp.sqrt(convexity / smoothness)
        gradient = phi.gradient(state.z, exchange(ask, phi, self.gradient, phi.unravel(state.z)).average())
        y = state.z - gradient / smoothness
        return StepResult(Momentum(y, y + (1 - root) / (1 + root) * (y - state.y)), state.z, gradient)

    def solution(self, state):
        return state.y
