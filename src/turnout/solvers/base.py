"""The interface of cohort solvers: records that minimise a proximal subproblem by exchanges with one cohort."""

import math
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from turnout.client_solvers.base import check_twice_differentiable
from turnout.core.algorithm import Ask, on_client
from turnout.core.client import Done
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import NonNegative, Positive, record
from turnout.core.replies import Replies
from turnout.core.tree import positive


class Proximal(NamedTuple):
    """The subproblem phi(y) = f_S(y) + (c/2) |y - x|^2, f_S = sum_{i in S} (lambda_i / p_i) f_i.

    Args:
        cohort: S.
        centre: x [d].
        convexity: c = 1 / gamma.
        unravel: Turns a vector [d] into parameters.
    """

    cohort: Cohort
    centre: Float[Array, " d"]
    convexity: Float[Array, ""]
    unravel: Callable[[Any], PyTree]

    @property
    def weight(self) -> Float[Array, ""]:
        """W = sum_{i in S} lambda_i / p_i, so that f_S / W is a mean of the f_i; it is 1 for many designs."""
        return jnp.sum(jnp.where(self.cohort.active, self.cohort.weight, 0))

    def value(self, y: Float[Array, " d"], value: Float[Array, ""]) -> Float[Array, ""]:
        """phi(y), given f_S(y).

        Args:
            y: Point [d].
            value: f_S(y).
        """
        return value + self.convexity / 2 * jnp.vdot(y - self.centre, y - self.centre)

    def gradient(self, y: Float[Array, " d"], gradient: PyTree) -> Float[Array, " d"]:
        """The gradient of phi at y, given that of f_S.

        Args:
            y: Point [d].
            gradient: Gradient of f_S at y, shaped like the parameters.
        """
        return ravel_pytree(gradient)[0] + self.convexity * (y - self.centre)


class StepResult(NamedTuple):
    """The result of a step.

    Args:
        state: The new state of the solver.
        y: A point [d] at which the cohort was asked.
        gradient: phi's gradient [d] there; infinite where it is not known.
    """

    state: Any
    y: Float[Array, " d"]
    gradient: Float[Array, " d"]


@record
class CohortSolver:
    """A solver of min_y phi(y) over y [d]; each `step` is one exchange with the cohort unless it says otherwise.

    Subclasses write `start`, `step` and `solution`.

    Args:
        smoothness: L of the clients' functions; None means max_i L_i of the problem.
        convexity: mu of the clients' functions; None means min_i mu_i of the problem.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> algorithm = t.Sppm(t.Nice(4), t.solvers.Lbfgs(), gamma=1.0, inner=3)
        >>> t.run(algorithm, problem, rounds=2).ledger.totals()["cohorts"]
        2
    """

    example = "t.solvers.Lbfgs()"

    smoothness: Positive | None = field(default=None, kw_only=True)
    convexity: NonNegative | None = field(default=None, kw_only=True)

    certifies: ClassVar[bool] = True
    """Whether each step returns the gradient of phi at a point, which bounds the error there."""

    needs_hessian: ClassVar[bool] = False
    """Whether clients are asked for second derivatives."""

    needs_smoothness: ClassVar[bool] = True
    """Whether L must be known."""

    def bind(self, problem) -> "CohortSolver":
        """Return this solver with the constants of `problem` where none were given.

        Raises:
            UserError: If the problem lacks second derivatives or constants that the solver needs.
        """
        name = type(self).__name__
        if self.needs_hessian:
            check_twice_differentiable(self, problem)
        constants = None if None not in (self.smoothness, self.convexity) else problem.constants()
        if self.smoothness is None and constants is None and self.needs_smoothness:
            raise UserError(f"solver {name} needs smoothness: {type(problem).__name__} does not know it")
        largest = None if constants is None else float(constants.smoothness.max())
        smoothness = largest if self.smoothness is None else self.smoothness
        if self.convexity is not None:
            return replace(self, smoothness=smoothness)
        return replace(self, smoothness=smoothness, convexity=float(constants.convexity.min()) if constants else 0.0)

    def bounds(self, phi: Proximal) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Return W mu + 1 / gamma and W L + 1 / gamma, the bounds on the curvature of phi."""
        convexity = jnp.asarray(self.convexity)
        smoothness = jnp.asarray(math.inf if self.smoothness is None else self.smoothness)
        return phi.weight * convexity + phi.convexity, phi.weight * smoothness + phi.convexity

    def memory(self, x: Float[Array, " d"]) -> Any:
        """Return the memory handed to the first cohort."""
        return None

    def client_state(self, x: PyTree) -> PyTree:
        """Return a client's first private state."""
        return None

    def start(self, phi: Proximal, memory: Any) -> Any:
        """Return the first state of the search for the minimiser of phi.

        Args:
            phi: The subproblem.
            memory: What `keep` returned for the last cohort, `memory(x)` for the first one.
        """
        raise UserError(f"{type(self).__name__} has no start(self, phi, memory): write one")

    def step(self, ask: Ask, phi: Proximal, state: Any) -> StepResult:
        """Exchange with the cohort and return the new state, a point and phi's gradient there.

        Args:
            ask: Access to the clients.
            phi: The subproblem.
            state: State of the search.
        """
        raise UserError(f"{type(self).__name__} has no step(self, ask, phi, state): write one")

    def solution(self, state: Any) -> Float[Array, " d"]:
        """Return the current approximation of the minimiser [d]."""
        raise UserError(f"{type(self).__name__} has no solution(self, state): write one")

    def keep(self, state: Any) -> Any:
        """Return the memory handed to the next cohort."""
        return None

    @on_client
    def gradient(self, client, x):
        """The gradient of f_i."""
        return Done(client.grad(x))

    @on_client
    def value_and_grad(self, client, x):
        """f_i and its gradient."""
        return Done(client.value_and_grad(x))


def exchange(ask: Ask, phi: Proximal, method: Callable, message: PyTree) -> Replies:
    """Exchange with the cohort of `phi`; its sampler observes the replies.

    Args:
        ask: Access to the clients.
        phi: The subproblem.
        method: Local method, marked with `on_client`.
        message: Pytree of arrays.
    """
    replies = ask(phi.cohort, method, message)
    ask.observe(replies)
    return replies


def weighted_mean(replies: Replies, default: PyTree) -> PyTree:
    """sum w_i r_i / sum w_i over the clients that answered, w_i = lambda_i / p_i; `default` if none did.

    Args:
        replies: Replies of the cohort.
        default: Result if no client answered, shaped like a reply.
    """
    total = jnp.sum(jnp.where(replies.answered, replies.cohort.weight, 0))
    flat, unravel = ravel_pytree(default)
    return unravel(jnp.where(total > 0, ravel_pytree(replies.average())[0] / positive(total), flat))
