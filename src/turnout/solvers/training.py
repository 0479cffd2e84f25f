"""Cohort solvers of local training: rounds of `turnout.training` with one cohort, each client minimising its part of phi."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, PyTree

from turnout import training
from turnout.arithmetic import positive
from turnout.exchange import Replies, if_any
from turnout.records import record
from turnout.solvers.base import Asked, CohortSolver
from turnout.training import LocalTraining, Meeting, Objective


class State(NamedTuple):
    """The point y, what the server keeps beside it, and whether the cohort was not asked yet."""

    y: PyTree
    memory: Any
    first: Bool[Array, ""]


@record
class Trained(LocalTraining, CohortSolver):
    """A step is a round with phi's cohort, whose clients minimise phi_i = f_i + |. - x|^2 / (2 gamma W); the weighted mean of
    these is phi / W, and means of replies are weighted alike. What servers and clients keep begins anew with each cohort.
    """

    certifies = False
    needs_smoothness = False

    def bind(self, problem):
        return CohortSolver.bind(self.fitted(problem), problem)

    def client_state(self, x):
        return self.local_state(x)

    def opened(self, client, message):
        message, centre, pull, first = message
        state = jax.tree.map(lambda new, old: jnp.where(first, new, old), self.local_state(centre), client.state)
        return message, state, Objective(centre, pull)

    def start(self, phi, memory):
        y = phi.unravel(phi.centre)
        return State(y, self.begin(y), jnp.asarray(True))

    def step(self, ask, phi, state):
        centre, pull = phi.unravel(phi.centre), phi.convexity / positive(phi.weight)
        meeting = Meeting(ask, phi.cohort, _mean, lambda message: (message, centre, pull, state.first))
        new = self.play(meeting, state.y, state.memory)
        y, memory = if_any(meeting.replies, new, (state.y, state.memory))
        point = ravel_pytree(state.y)[0]
        return Asked(State(y, memory, jnp.asarray(False)), point, jnp.full_like(point, jnp.inf))

    def solution(self, state):
        return ravel_pytree(state.y)[0]


def _mean(replies: Replies) -> PyTree:
    """sum w_i r_i / sum w_i over those who answered, w_i = lambda_i / p_i; zero if nobody did."""
    total = positive(jnp.sum(jnp.where(replies.answered, replies.cohort.weight, 0)))
    return jax.tree.map(lambda sum: sum / total.astype(sum.dtype), replies.average())


@record
class FedOpt(training.FedOpt, Trained):
    __doc__ = training.FedOpt.__doc__


@record
class MimeLite(training.MimeLite, Trained):
    __doc__ = training.MimeLite.__doc__


@record
class Mime(training.Mime, Trained):
    __doc__ = training.Mime.__doc__


@record
class FedSpeed(training.FedSpeed, Trained):
    __doc__ = training.FedSpeed.__doc__


@record
class FedLamb(training.FedLamb, Trained):
    __doc__ = training.FedLamb.__doc__
