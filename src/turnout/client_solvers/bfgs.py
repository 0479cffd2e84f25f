"""Quasi-Newton methods on one client (optimistix)."""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from turnout.client_solvers.base import LocalObjective, LocalSolver, SearchResult
from turnout.core.records import Count, NonNegative, record


@record
class QuasiNewton(LocalSolver):
    """A quasi-Newton method of optimistix, with Armijo backtracking.

    It ends at |grad phi(w)| <= `tolerance`, after `steps` points tried, or when rounding hides that phi decreases. The line
    search compares values of phi, whose rounding hides the last half of the digits: it misses a certificate that needs them,
    where `NewtonCg` reaches it.

    Args:
        steps: Largest number of points tried.
        tolerance: Norm of the gradient at which it ends.
    """

    steps: Count = 1000
    tolerance: NonNegative = 1e-6

    @abstractmethod
    def method(self, rounding: float) -> Any:
        """Return the optimistix solver that stops when the relative changes of w and phi are at most `rounding`."""

    def search(self, phi):
        # Slow to import.
        import equinox

        f = _differentiable(phi)
        shape = jax.ShapeDtypeStruct((), phi.start.dtype)
        method = self.method(float(jnp.finfo(phi.start.dtype).eps))
        rest = None, {}
        # The state contains functions, which a loop cannot carry.
        state = method.init(f, phi.start, *rest, shape, None, frozenset())
        state, functions = equinox.partition(state, equinox.is_array)

        def ended(w, state):
            return method.terminate(f, w, *rest, equinox.combine(state, functions), frozenset())[0]

        def unfinished(carry):
            w, state, steps = carry
            # The first step evaluates the gradient at the start; before it the library's state is empty.
            near = (steps > 0) & phi.reached(w, state.f_info.grad, self.tolerance)
            return (steps < jnp.asarray(self.steps, "int32")) & ~near & ~ended(w, state)

        def step(carry):
            w, state, steps = carry
            w, state, _ = method.step(f, w, *rest, equinox.combine(state, functions), frozenset())
            return w, equinox.filter(state, equinox.is_array), steps + 1

        w, state, steps = lax.while_loop(unfinished, step, (phi.start, state, jnp.zeros((), "int32")))
        return SearchResult(w, state.f_info.grad, steps)


@record
class Bfgs(QuasiNewton):
    """BFGS with Armijo backtracking (optimistix), which keeps a [d, d] matrix.

    Args:
        steps: Limit on the points tried.
        tolerance: Norm of the gradient to stop at.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> solver = t.client_solvers.Bfgs()
        >>> t.run(t.PointSaga(t.Nice(4), solver, gamma=0.2), problem, rounds=10).ledger.totals()["arrivals"]
        40
    """

    def method(self, rounding):
        # Slow to import.
        import optimistix

        return optimistix.BFGS(rtol=rounding, atol=rounding)


@record
class Lbfgs(QuasiNewton):
    """L-BFGS with Armijo backtracking (optimistix), which keeps the last ten steps.

    Args:
        steps: Limit on the points tried.
        tolerance: Norm of the gradient to stop at.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> solver = t.client_solvers.Lbfgs()
        >>> t.run(t.PointSaga(t.Nice(4), solver, gamma=0.2), problem, rounds=10).ledger.totals()["arrivals"]
        40
    """

    def method(self, rounding):
        # Slow to import.
        import optimistix

        return optimistix.LBFGS(rtol=rounding, atol=rounding)


def _differentiable(phi: LocalObjective):
    """Return phi with a derivative rule, as optimistix differentiates by itself, which a client's oracle does not allow."""

    @jax.custom_vjp
    def value(w):
        return phi.value_and_grad(w)[0]

    value.defvjp(phi.value_and_grad, lambda gradient, cotangent: (cotangent * gradient,))
    return lambda w, _: (value(w), None)
