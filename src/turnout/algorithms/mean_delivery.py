"""Delivery of a cohort's mean solution to the clients of dual methods: with their next message, or by an exchange of its own.

Clients send solutions w_i, and each later makes a step y_i - rate_i (w_i - mean). Delivery "lazy" sends the mean with the next
message to the client, so that solutions cost one exchange. Delivery "eager" sends it by an exchange of its own; clients that did
not confirm it get it when they are next drawn, before anything else, in one more exchange. A client makes its step when its reply
to the mean was used, and its solution counts when that was: no lost reply leaves one without the other. The iterates of both
deliveries are the same as long as no reply is lost.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from turnout.client_solvers.base import of_client
from turnout.core.algorithm import Ask
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.messages import Each
from turnout.core.replies import Replies, if_any
from turnout.core.tree import positive
from turnout.problems.base import Population, Problem
from turnout.samplers import Delegate, Full, Sampler
from turnout.samplers.base import places_of_cohorts, samplers_in

Delivery = Literal["lazy", "eager"]


class DualState(NamedTuple):
    """The parameters x to hand out, and the mean `owed` to each client [n, ...], of the last exchange that it answered.

    A client that never answered is owed x_0, which is also its first solution, so that it has no step to make. `due` [n] marks
    the clients that have not confirmed their mean; None with lazy delivery.
    """

    x: PyTree
    owed: PyTree
    due: Bool[Array, " n"] | None


def initial_state(x: PyTree, clients: int, delivery: Delivery) -> DualState:
    """Return the server's first state for `clients` clients.

    Args:
        x: Initial parameters.
        clients: n.
        delivery: "lazy" or "eager".
    """
    owed = jax.tree.map(lambda x: jnp.broadcast_to(x, (clients, *jnp.shape(x))), x)
    return DualState(x, owed, None if delivery == "lazy" else jnp.zeros(clients, bool))


def exchange_solutions(
    ask: Ask, cohort: Cohort, state: DualState, solve: Callable, correct: Any, convexity: Any, *rest
) -> tuple[DualState, Replies]:
    """Ask a cohort for solutions, and hand out their mean sum lambda_i alpha_i w_i / sum lambda_i alpha_i.

    Args:
        ask: The server's handle on its clients.
        cohort: The cohort to ask.
        state: The server's state.
        solve: Local method that replies with w_i to the message (mean owed or None, *rest).
        correct: Local method that makes the step for a mean and replies with nothing, for eager delivery; None with lazy one.
        convexity: alpha, one number or [n].
        *rest: Further parts of the message to `solve`.
    """
    if state.due is None:
        replies = ask(cohort, solve, (Each(_rows(state.owed, cohort.ids)), *rest))
    else:
        state = _deliver(ask, cohort, state, correct)
        ready = replace(cohort, active=cohort.active & ~state.due[cohort.ids])
        replies = ask(ready, solve, (None, *rest))
    mean = _mean(replies, convexity, state.x)
    ask.observe(replies.map(lambda i, w: jax.tree.map(lambda w, mean: of_client(convexity, i) * (w - mean), w, mean)))
    answered = _answered(replies, state)
    owed = jax.tree.map(lambda owed, mean: owed.at[answered].set(mean, mode="drop"), state.owed, mean)
    state = state._replace(x=mean, owed=owed)
    if state.due is not None:
        state = state._replace(due=state.due.at[answered].set(True, mode="drop"))
        state = _deliver(ask, replace(cohort, active=replies.answered), state, correct)
    return state, replies


def dual_step(y: PyTree, rate: Float[Array, ""], w: PyTree, mean: PyTree) -> PyTree:
    """y - rate (w - mean).

    Args:
        y: Dual variable.
        rate: Step size.
        w: Solution of the client.
        mean: Mean of the cohort's solutions.
    """
    return jax.tree.map(lambda y, w, mean: y - rate * (w - mean), y, w, mean)


def strong_convexity(method: str, given: Any, problem: Problem) -> Float[np.ndarray, "..."]:
    """Return alpha as `given`, one number or [n], or the problem's mu_i [n].

    Args:
        method: Name of the algorithm, for the message.
        given: alpha, one number or [n]; None takes mu_i of the problem.
        problem: The problem.

    Raises:
        UserError: If alpha is unknown, has another shape, or is not positive.
    """
    constants = problem.constants() if given is None else None
    if given is None and constants is None:
        raise UserError(f"{method} needs convexity: {type(problem).__name__} does not know how strongly convex its clients are")
    alpha = np.asarray(constants.convexity if given is None else given, float)
    if alpha.shape not in ((), (problem.clients,)):
        raise UserError(f"{method}.convexity must be one number or {problem.clients}, one for each client, but has {alpha.size}")
    if not np.all(alpha > 0):
        i = int(np.argmin(np.atleast_1d(alpha) > 0))
        raise UserError(
            f"{method} needs strongly convex clients, but client {i} has mu_i = {np.atleast_1d(alpha)[i]:g}: give the problem "
            "weight decay"
        )
    return alpha


def check_cohorts(method: str, sampler: Sampler, population: Population) -> None:
    """Check that `sampler` draws at least two clients, and need not know replies before it draws.

    Args:
        method: Name of the algorithm, for the message.
        sampler: The sampler.
        population: The clients.

    Raises:
        UserError: If not.
    """
    too_few = UserError(f"{method} makes no step with fewer than two clients a round: let the sampler draw at least 2")
    for part in samplers_in(sampler):
        size = None if isinstance(part, Full) else getattr(part, "size", None)
        if isinstance(part, Delegate) or (size is not None and size < 2):
            raise too_few
    if sampler.consults_before_draw or (sampler.learns_from_feedback and sampler.feedback_kind == "loss"):
        raise UserError(
            f"{method} sends each client another message, so that its sampler cannot ask clients before the draw or for "
            "their loss: take another sampler"
        )
    if places_of_cohorts(sampler, population) < 2 <= population.count:
        raise too_few


def _deliver(ask: Ask, cohort: Cohort, state: DualState, correct: Callable) -> DualState:
    """Send the clients of the cohort that have not confirmed their mean this mean."""
    waiting = replace(cohort, active=cohort.active & state.due[cohort.ids])
    replies = ask(waiting, correct, Each(_rows(state.owed, cohort.ids)))
    return state._replace(due=state.due.at[_answered(replies, state)].set(False, mode="drop"))


def _mean(replies: Replies, convexity: Any, default: PyTree) -> PyTree:
    """sum lambda_i alpha_i w_i / sum lambda_i alpha_i over the clients that answered; `default` if none did."""

    def weighted(i, w):
        alpha = of_client(convexity, i)
        return jax.tree.map(lambda w: alpha * w, w), alpha

    total, weight = replies.map(weighted).mean()
    mean = jax.tree.map(lambda total: total / positive(weight), total)
    return if_any(replies, mean, default)


def _answered(replies: Replies, state: DualState) -> Int[Array, " m"]:
    """The ids of the clients that answered, and n in the other places."""
    return jnp.where(replies.answered, replies.cohort.ids, jax.tree.leaves(state.owed)[0].shape[0])


def _rows(stacked: PyTree, ids: Int[Array, " m"]) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[ids], stacked)
