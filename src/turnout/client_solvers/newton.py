"""Newton's method with conjugate gradients on one client."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from turnout.client_solvers.base import LocalObjective, LocalSolver, SearchResult, check_twice_differentiable
from turnout.client_solvers.line_search import decreased
from turnout.core.records import Count, NonNegative, record

DECREASE = 0.01
"""Share of the decrease promised by the slope that a step must bring (Armijo's condition)."""

HALVINGS = 100
"""Limit on the halvings of a step."""


class Point(NamedTuple):
    """A point w [d], phi's value and gradient [d] there, the steps and queries so far, and whether rounding hides progress."""

    w: Float[Array, " d"]
    value: Float[Array, ""]
    gradient: Float[Array, " d"]
    steps: Int[Array, ""]
    queries: Int[Array, ""]
    exhausted: Bool[Array, ""]


@record
class NewtonCg(LocalSolver):
    """Newton's method with conjugate gradients and a line search.

    w <- w + t p with H p = -g, g and H being gradient and Hessian of phi at w, and t = 1 halved until phi decreases enough.
    Conjugate gradients find p up to |H p + g| <= max(`relative` |g|, `tolerance` / 100), or up to the wanted certificate.

    Args:
        steps: Limit on the steps.
        tolerance: Norm of the gradient to stop at.
        products: Limit on the products with H in a step.
        relative: Relative residual of the conjugate gradients.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> solver = t.client_solvers.NewtonCg()
        >>> t.run(t.PointSaga(t.Nice(4), solver, gamma=0.2), problem, rounds=10).ledger.totals()["arrivals"]
        40
    """

    steps: Count = 50
    tolerance: NonNegative = 1e-6
    products: Count = 1000
    relative: NonNegative = 1e-4

    def bind(self, problem):
        check_twice_differentiable(self, problem)
        return self

    def search(self, phi):
        zero = jnp.zeros((), "int32")
        first = Point(phi.start, *phi.value_and_grad(phi.start), zero, zero + 1, jnp.zeros((), bool))

        def unfinished(point: Point):
            reached = phi.reached(point.w, point.gradient, self.tolerance)
            return (point.steps < jnp.asarray(self.steps, "int32")) & ~point.exhausted & ~reached

        last = lax.while_loop(unfinished, lambda point: self._step(phi, point), first)
        return SearchResult(last.w, last.gradient, last.queries, last.exhausted)

    def _step(self, phi: LocalObjective, point: Point) -> Point:
        p, products = self._direction(phi, point)
        slope = jnp.vdot(point.gradient, p)

        def rejected(trial):
            t, value, gradient, trials = trial
            enough = decreased(point.value, t * slope, value, t * jnp.vdot(gradient, p), DECREASE)
            return ~enough & (trials <= HALVINGS)

        def halve(trial):
            t, _, _, trials = trial
            return t / 2, *phi.value_and_grad(point.w + t / 2 * p), trials + 1

        whole = jnp.ones((), p.dtype), *phi.value_and_grad(point.w + p), jnp.ones((), "int32")
        t, value, gradient, trials = lax.while_loop(rejected, halve, whole)
        # Far from the minimiser steps decrease phi, near it they more than halve the gradient; otherwise rounding dominates.
        exhausted = ~(value < point.value) & ~(jnp.linalg.norm(gradient) < jnp.linalg.norm(point.gradient) / 2)
        return Point(point.w + t * p, value, gradient, point.steps + 1, point.queries + products + trials, exhausted)

    def _direction(self, phi: LocalObjective, point: Point) -> tuple[Float[Array, " d"], Int[Array, ""]]:
        """Return p and the number of products, which conjugate gradients of a library do not tell."""
        minimum = self.tolerance / 100 if phi.delta is None else 0.0
        goal = jnp.maximum(jnp.asarray(minimum), self.relative * jnp.linalg.norm(point.gradient))

        def unfinished(state):
            p, r, _, _, products, convex = state
            near = jnp.linalg.norm(r) <= goal
            if phi.delta is not None:
                # The gradient at w + p is -r up to the change of the Hessian, for which the factor allows.
                near = near | phi.reached(point.w + p, 2 * r)
            return convex & (products < jnp.asarray(self.products, "int32")) & ((products == 0) | ~near)

        def step(state):
            p, r, v, square, products, _ = state
            product = phi.hvp(point.w, v)
            curvature = jnp.vdot(v, product)
            convex = curvature > 0
            # At negative curvature p stays as it is, or is the steepest descent in the first step.
            length = jnp.where(convex, square / jnp.where(convex, curvature, 1), jnp.where(products == 0, 1, 0))
            p, r = p + length * v, r - length * product
            new = jnp.vdot(r, r)
            return p, r, r + new / square * v, new, products + 1, convex

        r = -point.gradient
        start = jnp.zeros_like(r), r, r, jnp.vdot(r, r), jnp.zeros((), "int32"), jnp.ones((), bool)
        p, _, _, _, products, _ = lax.while_loop(unfinished, step, start)
        return p, products
