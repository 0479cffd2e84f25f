"""A cohort solver made of a first-order optimiser of the server."""

from dataclasses import field

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import record
from turnout.optimisers import Optimiser
from turnout.optimisers.base import random_signs
from turnout.solvers.base import CohortSolver, StepResult, exchange


@record
class FirstOrder(CohortSolver):
    """Steps of a first-order optimiser with the gradient of phi; the state of the optimiser starts anew with each cohort.

    An exchange brings the gradient and, for an optimiser that needs the Hessian, like `Oasis`, its product with random signs z.

    Args:
        smoothness: L; None means max_i L_i of the problem.
        convexity: mu; None means min_i mu_i of the problem.
        optimiser: The optimiser.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> solver = t.solvers.FirstOrder(optimiser=t.optimisers.Adam(0.1))
        >>> trace = t.run(t.Sppm(t.Nice(4), solver, gamma=1.0, inner=4), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        20
    """

    optimiser: Optimiser = field(kw_only=True)

    needs_smoothness = False

    def bind(self, problem):
        self.optimiser.check(problem)
        return super().bind(problem)

    def start(self, phi, memory):
        return phi.centre, self.optimiser.start(phi.unravel(phi.centre))

    def step(self, ask, phi, state):
        y, memory = state
        x, curvature = phi.unravel(y), None
        if self.optimiser.needs_hessian:
            z = random_signs(x, ask.key())
            slope, product = exchange(ask, phi, self.gradient_and_product, (x, z)).average()
            diagonal = jax.tree.map(lambda z, h: z * h + phi.convexity.astype(h.dtype), z, product)
            curvature = lambda _: diagonal  # noqa: E731
        else:
            slope = exchange(ask, phi, self.gradient, x).average()
        gradient = phi.gradient(y, slope)
        new, memory = self.optimiser.step(x, phi.unravel(gradient), memory, curvature)
        return StepResult((ravel_pytree(new)[0], memory), y, gradient)

    def solution(self, state):
        return state[0]

    @on_client
    def gradient_and_product(self, client, message):
        """The gradient of f_i at x, and the Hessian there times z."""
        x, z = message
        return Done((client.grad(x), jax.tree.map(jnp.asarray, client.hvp(x, z))), queries=2)
