"""Cohort solvers made of an optimiser of the server alone."""

from dataclasses import field

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import record
from turnout.optimisers import Optimiser
from turnout.optimisers.base import random_signs
from turnout.solvers.base import Asked, CohortSolver, exchange


@record
class Descent(CohortSolver):
    """y <- a step of `optimiser` from y with the gradient of phi; its state begins anew with each cohort.

    An exchange brings the gradient and, for an `optimiser` that needs the Hessian, as `Oasis` does, its product with signs z.
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
            found = jax.tree.map(lambda z, h: z * h + phi.convexity.astype(h.dtype), z, product)
            curvature = lambda _: found  # noqa: E731
        else:
            slope = exchange(ask, phi, self.gradient, x).average()
        gradient = phi.gradient(y, slope)
        new, memory = self.optimiser.step(x, phi.unravel(gradient), memory, curvature)
        return Asked((ravel_pytree(new)[0], memory), y, gradient)

    def solution(self, state):
        return state[0]

    @on_client
    def gradient_and_product(self, client, message):
        """The gradient of f_i at x, and the Hessian there times z."""
        x, z = message
        return Done((client.grad(x), jax.tree.map(jnp.asarray, client.hvp(x, z))), queries=2)
