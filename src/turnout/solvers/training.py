"""Cohort solvers of local training: each client minimises its part of phi."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Int, PyTree

from turnout import local_training as training
from turnout.core.records import record
from turnout.core.replies import Replies, if_any
from turnout.core.tree import positive
from turnout.local_training import LocalTraining, Meeting, Objective
from turnout.solvers.base import Asked, CohortSolver


class State(NamedTuple):
    """The point y, and what the server keeps beside it."""

    y: PyTree
    memory: Any


class Kept(NamedTuple):
    """What a client keeps, and the round of the cohort that it is from."""

    round: Int[Array, ""]
    state: PyTree


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
        state = self.local_state(x)
        return None if state is None else Kept(jnp.zeros((), "int32"), state)

    def opened(self, client, message):
        message, centre, pull, round = message
        state = self.local_state(centre)
        if state is not None:
            # A client may be heard for the first time in any of the exchanges with a cohort.
            same = client.state.round == round
            state = jax.tree.map(lambda new, old: jnp.where(same, old, new), state, client.state.state)
        return message, state, Objective(centre, pull), 1.0

    def closed(self, message, state):
        return Kept(message[-1], state)

    def start(self, phi, memory):
        y = phi.unravel(phi.centre)
        return State(y, self.begin(y))

    def step(self, ask, phi, state):
        centre, pull = phi.unravel(phi.centre), phi.convexity / positive(phi.weight)
        meeting = Meeting(ask, phi.cohort, _mean, lambda message: (message, centre, pull, ask.round))
        new = self.play(meeting, state.y, state.memory)
        point = ravel_pytree(state.y)[0]
        return Asked(State(*if_any(meeting.replies, new, tuple(state))), point, jnp.full_like(point, jnp.inf))

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
