"""Gradient descent on one client."""

from dataclasses import field, replace
from typing import Any

import jax.numpy as jnp
from jax import lax

from turnout.client_solvers.base import Found, LocalSolver, own
from turnout.core.errors import UserError
from turnout.core.records import Count, NonNegative, Positive, record
from turnout.solvers.line_search import ROUNDING


@record
class Gradient(LocalSolver):
    """w <- w - lr grad phi(w) until |grad phi(w)| <= `tolerance`, or `steps` times.

    `lr` None means 1 / (L_i + weight), L_i being the problem's constant: `smoothness` [n].
    """

    lr: Positive | None = None
    steps: Count = 1000
    tolerance: NonNegative = 1e-6
    smoothness: Any = field(default=None, repr=False)

    def bind(self, problem):
        if self.lr is not None or self.smoothness is not None:
            return self
        constants = problem.constants()
        if constants is None:
            raise UserError(f"solver Gradient needs lr: {type(problem).__name__} does not know how smooth its clients are")
        return replace(self, smoothness=constants.smoothness)

    def search(self, phi):
        lr = 1 / (own(self.smoothness, phi.client.id) + phi.weight) if self.lr is None else jnp.asarray(self.lr)
        rounding = ROUNDING * jnp.finfo(phi.start.dtype).eps / lr

        def exhausted(w, gradient):
            return jnp.linalg.norm(gradient) <= rounding * jnp.linalg.norm(w)

        def unfinished(state):
            w, gradient, steps = state
            return (
                (steps < jnp.asarray(self.steps, "int32")) & ~phi.reached(w, gradient, self.tolerance) & ~exhausted(w, gradient)
            )

        def step(state):
            w, gradient, steps = state
            w = w - lr * gradient
            return w, phi.grad(w), steps + 1

        first = phi.start, phi.grad(phi.start), jnp.zeros((), "int32")
        w, gradient, steps = lax.while_loop(unfinished, step, first)
        return Found(w, gradient, steps + 1, exhausted(w, gradient))
