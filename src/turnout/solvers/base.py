"""What every cohort solver is: a record that minimises a proximal subproblem by exchanges with one cohort."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from turnout.core.algorithm import Ask, on_client
from turnout.core.client import Done
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import NonNegative, Positive, record
from turnout.core.replies import Replies
from turnout.core.tree import positive


class Proximal(NamedTuple):
    """phi(y) = f_S(y) + (c/2) |y - x|^2 of the cohort S = `cohort`, with x = `centre` [d] and c = `convexity` = 1 / gamma."""

    cohort: Cohort
    centre: Float[Array, " d"]
    convexity: Float[Array, ""]
    unravel: Callable[[Any], PyTree]

    @property
    def weight(self) -> Float[Array, ""]:
        """W = sum_{i in S} lambda_i / p_i, so that f_S / W is a mean of the f_i; 1 for many designs."""
        return jnp.sum(jnp.where(self.cohort.active, self.cohort.weight, 0))

    def value(self, y: Float[Array, " d"], value: Float[Array, ""]) -> Float[Array, ""]:
        """phi(y), given f_S(y)."""
        return value + self.convexity / 2 * jnp.vdot(y - self.centre, y - self.centre)

    def gradient(self, y: Float[Array, " d"], gradient: PyTree) -> Float[Array, " d"]:
        """The gradient of phi at y, given that of f_S."""
        return ravel_pytree(gradient)[0] + self.convexity * (y - self.centre)


class Asked(NamedTuple):
    """What a step leaves: the solver's state, and a point y [d] that was asked about with phi's gradient [d] there."""

    state: Any
    y: Float[Array, " d"]
    gradient: Float[Array, " d"]


@record
class CohortSolver:
    """Minimises phi over y [d]: each `step` is one exchange with the cohort unless it says otherwise.

    `smoothness` and `convexity` are L and mu of the clients' functions; None takes max_i L_i and min_i mu_i of the problem.
    """

    example = "t.solvers.Lbfgs()"

    smoothness: Positive | None = None
    convexity: NonNegative | None = None

    certifies: ClassVar[bool] = True
    """Whether each step brings the gradient of phi at the point it asked about, which bounds the error there."""

    needs_hessian: ClassVar[bool] = False
    """Whether clients are asked for second derivatives."""

    needs_smoothness: ClassVar[bool] = True
    """Whether L has to be known."""

    def bind(self, problem) -> "CohortSolver":
        """Return this solver with the constants of `problem` where none were given."""
        name = type(self).__name__
        if self.needs_hessian:
            check_twice_differentiable(self, problem)
        constants = None if None not in (self.smoothness, self.convexity) else problem.constants()
        if self.smoothness is None and constants is None and self.needs_smoothness:
            raise UserError(f"solver {name} needs smoothness: {type(problem).__name__} does not know it")
        known = None if constants is None else float(constants.smoothness.max())
        smoothness = known if self.smoothness is None else self.smoothness
        if self.convexity is not None:
            return replace(self, smoothness=smoothness)
        return replace(self, smoothness=smoothness, convexity=float(constants.convexity.min()) if constants else 0.0)

    def bounds(self, phi: Proximal) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Return W mu + 1 / gamma and W L + 1 / gamma, between which all curvatures of phi are."""
        convexity = jnp.asarray(self.convexity)
        smoothness = jnp.asarray(math.inf if self.smoothness is None else self.smoothness)
        return phi.weight * convexity + phi.convexity, phi.weight * smoothness + phi.convexity

    def memory(self, x: Float[Array, " d"]) -> Any:
        """Return what is kept from cohort to cohort, before the first one."""
        return None

    def client_state(self, x: PyTree) -> PyTree:
        """Return what a client keeps from exchange to exchange, before the first one."""
        return None

    def start(self, phi: Proximal, memory: Any) -> Any:
        """Return the first state of the search for phi's minimiser."""
        raise UserError(f"{type(self).__name__} has no start(self, phi, memory): write one")

    def step(self, ask: Ask, phi: Proximal, state: Any) -> Asked:
        """Exchange with the cohort and return what was learnt."""
        raise UserError(f"{type(self).__name__} has no step(self, ask, phi, state): write one")

    def solution(self, state: Any) -> Float[Array, " d"]:
        """Return the best guess of the minimiser so far."""
        raise UserError(f"{type(self).__name__} has no solution(self, state): write one")

    def keep(self, state: Any) -> Any:
        """Return the memory to hand to the next cohort."""
        return None

    @on_client
    def gradient(self, client, x):
        """The gradient of f_i."""
        return Done(client.grad(x))

    @on_client
    def value_and_grad(self, client, x):
        """f_i and its gradient."""
        return Done(client.value_and_grad(x))


def check_twice_differentiable(solver: Any, problem) -> None:
    """Raise `UserError` if `solver`, which takes second derivatives, finds none in `problem`."""
    if not problem.twice_differentiable:
        name, kind = type(solver).__name__, type(problem).__name__
        raise UserError(f"solver {name} needs second derivatives: {kind} has none, take a first-order one")


def exchange(ask: Ask, phi: Proximal, method: Callable, message: PyTree) -> Replies:
    """Exchange with the cohort of `phi`, and let its sampler learn from the first replies."""
    replies = ask(phi.cohort, method, message)
    ask.observe(replies)
    return replies


def weighted_mean(replies: Replies, otherwise: PyTree) -> PyTree:
    """sum w_i r_i / sum w_i over those who answered, w_i = lambda_i / p_i; `otherwise` if nobody did."""
    total = jnp.sum(jnp.where(replies.answered, replies.cohort.weight, 0))
    flat, unravel = ravel_pytree(otherwise)
    return unravel(jnp.where(total > 0, ravel_pytree(replies.average())[0] / positive(total), flat))
