"""The base of cohort solvers with a line search: every point that they try is an exchange."""

from abc import abstractmethod
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from turnout.client_solvers.line_search import ROUNDING, decreased
from turnout.core.records import record
from turnout.solvers.base import CohortSolver, Proximal, StepResult, exchange

DECREASE = 0.1
"""Share of the decrease promised by the slope that a step must bring."""


class Search(NamedTuple):
    """The last accepted point y [d], phi's value and gradient [d] there, the step [d] to try next, and a memory."""

    y: Float[Array, " d"]
    value: Float[Array, ""]
    gradient: Float[Array, " d"]
    step: Float[Array, " d"]
    memory: Any


@record
class LineSearch(CohortSolver):
    """A solver with the update y <- y + step, accepted if phi decreases enough.

    The condition is Armijo's or, near the minimiser, that of Hager and Zhang (2005, equation 5). Otherwise a shorter step is
    tried, and the exchange counts as rejected. Subclasses write `initial_memory` and `direction`.
    """

    @abstractmethod
    def initial_memory(self, phi: Proximal) -> Any:
        """Return the memory before the first exchange."""

    @abstractmethod
    def direction(self, ask, phi: Proximal, state: Search, new: Search, reply: PyTree) -> tuple[Any, Float[Array, " d"]]:
        """Return the memory and the next step after the accepted point `new`; the first `state` has an infinite value.

        Args:
            ask: Access to the clients.
            phi: The subproblem.
            state: State at the last accepted point.
            new: State at the point that was just accepted.
            reply: The further parts of the replies that `evaluate` returned.
        """

    def evaluate(self, ask, phi: Proximal, y: Float[Array, " d"]) -> tuple[Float[Array, ""], PyTree, PyTree]:
        """Return f_S(y), its gradient, and further parts of the replies.

        Args:
            ask: Access to the clients.
            phi: The subproblem.
            y: Point to try [d].
        """
        return *exchange(ask, phi, self.value_and_grad, phi.unravel(y)).average(), None

    def enough(self, state: Search, value, gradient) -> Bool[Array, ""]:
        """Return whether to accept the point tried.

        Args:
            state: State at the last accepted point.
            value: phi at the point tried.
            gradient: Gradient of phi there [d].
        """
        slope, new_slope = jnp.vdot(state.gradient, state.step), jnp.vdot(gradient, state.step)
        return decreased(state.value, slope, value, new_slope, DECREASE)

    def shorten(self, state: Search, gradient) -> Float[Array, " d"]:
        """Return the step to try after a rejected one.

        Args:
            state: State at the last accepted point.
            gradient: Gradient of phi at the rejected point [d].
        """
        return state.step / 2

    def start(self, phi, memory):
        zero = jnp.zeros_like(phi.centre)
        return Search(phi.centre, jnp.asarray(jnp.inf, zero.dtype), zero, zero, self.initial_memory(phi))

    def step(self, ask, phi, state):
        y = self.solution(state)
        value, gradient, reply = self.evaluate(ask, phi, y)
        value, gradient = phi.value(y, value), phi.gradient(y, gradient)
        enough = self.enough(state, value, gradient)
        ask.reject(~enough)

        def accept(state):
            new = Search(y, value, gradient, state.step, state.memory)
            memory, step = self.direction(ask, phi, state, new, reply)
            step = jnp.where(jnp.vdot(step, gradient) < 0, step, self.descent(phi, gradient))
            return new._replace(step=jnp.where(self._is_rounding(phi, y, gradient), 0, step), memory=memory)

        def reject(state):
            return state._replace(step=self.shorten(state, gradient))

        return StepResult(ask.cond(enough, accept, reject, state), y, gradient)

    def solution(self, state):
        return state.y + state.step

    def descent(self, phi: Proximal, gradient: Float[Array, " d"]) -> Float[Array, " d"]:
        """Return the step -grad phi / (W L + 1 / gamma), which cannot increase phi.

        Args:
            phi: The subproblem.
            gradient: Gradient of phi [d].
        """
        return -gradient / self.bounds(phi)[1]

    def _is_rounding(self, phi: Proximal, y, gradient) -> Bool[Array, ""]:
        """Return whether the gradient is no larger than its rounding errors, so that a step would have no meaning."""
        rounding = ROUNDING * jnp.finfo(y.dtype).eps * self.bounds(phi)[1]
        return jnp.vdot(gradient, gradient) <= rounding**2 * jnp.vdot(y, y)
