"""What dual methods share: clients send solutions of problems of their own, and are owed the solutions' mean."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from turnout.client_solvers.base import own
from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.client import Client, Done
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.messages import Each
from turnout.core.replies import Replies, if_any
from turnout.core.tree import positive
from turnout.problems.base import Population, Problem
from turnout.samplers import Delegate, Full, Sampler
from turnout.samplers.base import samplers_in


class Server(NamedTuple):
    """The parameters handed out, and the mean `owed` to each client [n, ...]: that of the last exchange that it answered.

    A client that never answered is owed x_0, which is also its first solution, so that it has no step to make. `due` [n] tells
    who was not given its mean yet; None where that goes with the next message.
    """

    x: PyTree
    owed: PyTree
    due: Bool[Array, " n"] | None


class DualMethod(Algorithm):
    """Solutions w_i go up; their mean, of which each step y_i - rate_i (w_i - mean) is made, comes down by one of two ways.

    Delivery "lazy" hands it over with the next message that the client gets, so that solutions cost one exchange; "eager" in an
    exchange of its own. Whoever did not confirm it then gets it when next drawn, before anything else, in one more exchange.
    A client makes its step when its reply to the mean was used, and its solution counts when that was: no loss of a reply
    leaves one without the other, and the iterates of both ways are the same as long as none is lost.

    A subclass writes `corrected`, and calls `visit` in its round.
    """

    sampler: Sampler
    convexity: Any
    delivery: str
    clients: int | None

    def start(self, ask, x):
        owed = jax.tree.map(lambda x: jnp.broadcast_to(x, (self.clients, *jnp.shape(x))), x)
        return Server(x, owed, None if self.delivery == "lazy" else jnp.zeros(self.clients, bool))

    def output(self, server):
        return server.x

    def corrected(self, client: Client, mean: PyTree) -> PyTree:
        """Return the client's state after the step for which `mean` was owed."""
        raise UserError(f"{type(self).__name__} has no corrected(self, client, mean): write one")

    @on_client
    def correct(self, client, mean):
        """Nothing but that the step was made."""
        return Done(None, self.corrected(client, mean), queries=0)

    def visit(self, ask: Ask, cohort: Cohort, server: Server, method, *rest) -> tuple[Server, Replies]:
        """Ask a cohort for solutions by a message (mean owed or None, *rest); hand out their mean, owed to those who answered."""
        if self.delivery == "lazy":
            replies = ask(cohort, method, (Each(_at(server.owed, cohort.ids)), *rest))
        else:
            server = self._deliver(ask, cohort, server)
            ready = replace(cohort, active=cohort.active & ~server.due[cohort.ids])
            replies = ask(ready, method, (None, *rest))
        mean = self._mean(replies, server.x)
        ask.observe(replies.map(lambda i, w: jax.tree.map(lambda w, mean: own(self.convexity, i) * (w - mean), w, mean)))
        heard = jnp.where(replies.answered, cohort.ids, self.clients)
        owed = jax.tree.map(lambda owed, mean: owed.at[heard].set(mean, mode="drop"), server.owed, mean)
        server = server._replace(x=mean, owed=owed)
        if self.delivery == "eager":
            server = server._replace(due=server.due.at[heard].set(True, mode="drop"))
            server = self._deliver(ask, replace(cohort, active=replies.answered), server)
        return server, replies

    def _deliver(self, ask: Ask, cohort: Cohort, server: Server) -> Server:
        """Give those of the cohort to whom it is due their mean."""
        waiting = replace(cohort, active=cohort.active & server.due[cohort.ids])
        replies = ask(waiting, self.correct, Each(_at(server.owed, cohort.ids)))
        done = jnp.where(replies.answered, cohort.ids, self.clients)
        return server._replace(due=server.due.at[done].set(False, mode="drop"))

    def _mean(self, replies: Replies, otherwise: PyTree) -> PyTree:
        """sum lambda_i alpha_i w_i / sum lambda_i alpha_i over those who answered; `otherwise` if nobody did."""

        def scaled(i, w):
            alpha = own(self.convexity, i)
            return jax.tree.map(lambda w: alpha * w, w), alpha

        total, weight = replies.map(scaled).mean()
        mean = jax.tree.map(lambda total: total / positive(weight), total)
        return if_any(replies, mean, otherwise)


def steps_from(y: PyTree, rate: Float[Array, ""], w: PyTree, mean: PyTree) -> PyTree:
    """y - rate (w - mean)."""
    return jax.tree.map(lambda y, w, mean: y - rate * (w - mean), y, w, mean)


def strong_convexity(method: str, given: Any, problem: Problem) -> Float[np.ndarray, "..."]:
    """Return alpha as `given`, one number or n, or the problem's mu_i [n]; `UserError` where it is not above 0."""
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
    """Raise `UserError` where the sampler draws fewer than two clients, or has to know replies before it draws."""
    few = UserError(f"{method} makes no step with fewer than two clients a round: let the sampler draw at least 2")
    for part in samplers_in(sampler):
        size = None if isinstance(part, Full) else getattr(part, "size", None)
        if isinstance(part, Delegate) or (size is not None and size < 2):
            raise few
    if sampler.consults_before_draw or (sampler.learns_from_feedback and sampler.feedback_kind == "loss"):
        raise UserError(
            f"{method} has a message of its own for each client, by which none can be consulted before a draw or for its loss: "
            "take another sampler"
        )
    cohort = jax.eval_shape(lambda key: sampler.draw(sampler.start(population), key, population), jax.random.key(0))
    if cohort.places < 2 <= population.count:
        raise few


def _at(stacked: PyTree, ids: Int[Array, " m"]) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[ids], stacked)
