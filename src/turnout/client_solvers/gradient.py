"""Gradient descent on one client."""

from dataclasses import field, replace
from typing import Any

import jax.numpy as jnp
from jax import lax

from turnout.client_solvers.base import LocalSolver, SearchResult, of_client
from turnout.client_solvers.line_search import ROUNDING
from turnout.core.errors import UserError
from turnout.core.records import Count, NonNegative, Positive, record


@record
class Gradient(LocalSolver):
    """Gradient descent: w <- w - lr grad phi(w).

    Args:
        lr: Step size; None means 1 / (L_i + weight).
        steps: Limit on the steps.
        tolerance: Norm of the gradient to stop at.
        smoothness: L_i [n]. Set by `bind` from the problem.

    Raises:
        UserError: If neither `lr` is given nor L_i known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> solver = t.client_solvers.Gradient(steps=20)
        >>> t.run(t.PointSaga(t.Nice(4), solver, gamma=0.2), problem, rounds=10).ledger.totals()["arrivals"]
        40
    """

    lr: Positive | None = None
    steps: Count = 1000
    tolerance: NonNegative = 1e-6
    smoothness: Any = field(default=None, repr=False, kw_only=True)

    def bind(self, problem):
        if self.lr is not None or self.smoothness is not None:
            return self
        constants = problem.constants()
        if constants is None:
            raise UserError(f"solver Gradient needs lr: {type(problem).__name__} does not know how smooth its clients are")
        return replace(self, smoothness=constants.smoothness)

    def search(self, phi):
        lr = 1 / (of_client(self.smoothness, phi.client.id) + phi.weight) if self.lr is None else jnp.asarray(self.lr)
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
        return SearchResult(w, gradient, steps + 1, exhausted(w, gradient))
