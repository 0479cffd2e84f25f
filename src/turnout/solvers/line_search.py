"""What the cohort solvers with a line search share: every point they try is an exchange, and is counted as one."""

from abc import abstractmethod
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from turnout.core.records import record
from turnout.solvers.base import Asked, CohortSolver, Proximal, exchange

DECREASE = 0.1
"""The share of the decrease that the slope promises which a step must bring."""

SLACK = 1e-6
"""A change of phi below this share of it counts as none: there the slopes, which rounding spoils less, decide."""

ROUNDING = 4
"""A gradient below so many roundings of L |y| is zero for all that can be known."""


class Search(NamedTuple):
    """The last accepted point y [d] with phi's value and gradient [d] there, the step [d] to try next, and a memory."""

    y: Float[Array, " d"]
    value: Float[Array, ""]
    gradient: Float[Array, " d"]
    step: Float[Array, " d"]
    memory: Any


@record
class LineSearch(CohortSolver):
    """y <- y + step, if phi decreases enough there: by Armijo's condition or, near the minimiser, by that of Hager and Zhang
    (2005, equation 5). Else a shorter step is tried; that exchange counts as rejected.
    """

    @abstractmethod
    def learn(self, phi: Proximal) -> Any:
        """Return the memory before the first exchange."""

    @abstractmethod
    def direct(self, ask, phi: Proximal, state: Search, new: Search, reply: PyTree) -> tuple[Any, Float[Array, " d"]]:
        """Return memory and step after the accepted point `new`; the first one follows a `state` of infinite value."""

    def evaluate(self, ask, phi: Proximal, y: Float[Array, " d"]) -> tuple[Float[Array, ""], PyTree, PyTree]:
        """Return f_S(y), its gradient, and whatever else the replies bring."""
        return *exchange(ask, phi, self.value_and_grad, phi.unravel(y)).average(), None

    def enough(self, state: Search, value, gradient) -> Bool[Array, ""]:
        """Whether the point tried is good enough."""
        slope, new_slope = jnp.vdot(state.gradient, state.step), jnp.vdot(gradient, state.step)
        return decreased(state.value, slope, value, new_slope, DECREASE)

    def shorten(self, state: Search, gradient) -> Float[Array, " d"]:
        """Return the step to try after one that was not good enough."""
        return state.step / 2

    def start(self, phi, memory):
        zero = jnp.zeros_like(phi.centre)
        return Search(phi.centre, jnp.asarray(jnp.inf, zero.dtype), zero, zero, self.learn(phi))

    def step(self, ask, phi, state):
        y = self.solution(state)
        value, gradient, reply = self.evaluate(ask, phi, y)
        value, gradient = phi.value(y, value), phi.gradient(y, gradient)
        enough = self.enough(state, value, gradient)
        ask.reject(~enough)

        def accept(state):
            new = Search(y, value, gradient, state.step, state.memory)
            memory, step = self.direct(ask, phi, state, new, reply)
            step = jnp.where(jnp.vdot(step, gradient) < 0, step, self.descent(phi, gradient))
            return new._replace(step=jnp.where(self._noise(phi, y, gradient), 0, step), memory=memory)

        def reject(state):
            return state._replace(step=self.shorten(state, gradient))

        return Asked(ask.cond(enough, accept, reject, state), y, gradient)

    def solution(self, state):
        return state.y + state.step

    def descent(self, phi: Proximal, gradient: Float[Array, " d"]) -> Float[Array, " d"]:
        """Return the step -grad phi / (W L + 1 / gamma), which cannot increase phi."""
        return -gradient / self.bounds(phi)[1]

    def _noise(self, phi: Proximal, y, gradient) -> Bool[Array, ""]:
        """Whether the gradient is no larger than its rounding errors, of which a step would only learn nonsense."""
        rounding = ROUNDING * jnp.finfo(y.dtype).eps * self.bounds(phi)[1]
        return jnp.vdot(gradient, gradient) <= rounding**2 * jnp.vdot(y, y)


def decreased(old: Float[Array, ""], slope, new: Float[Array, ""], new_slope, share: float) -> Bool[Array, ""]:
    """Whether phi decreased from `old` to `new` by at least the `share` of what its slope along the step promised, or else is
    level while its slope has risen enough, as it does near the minimiser (Hager and Zhang, 2005, equation 5).
    """
    level = new <= old + SLACK * jnp.abs(new)
    return (new <= old + share * slope) | (level & (new_slope <= (2 * share - 1) * slope))
