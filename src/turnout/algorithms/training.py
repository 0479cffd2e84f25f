"""Algorithms of local training: rounds of `turnout.local_training`, each with a cohort of its own."""

from dataclasses import field
from typing import NamedTuple

from jaxtyping import PyTree

from turnout import local_training as training
from turnout.core.algorithm import Algorithm
from turnout.core.records import record
from turnout.core.replies import if_any
from turnout.local_training import LocalTraining, Meeting
from turnout.optimisers.schedules import Schedule, scheduled
from turnout.samplers import Sampler


class Server(NamedTuple):
    """The parameters x, and what the server keeps beside them."""

    x: PyTree
    memory: PyTree


@record
class Trained(LocalTraining, Algorithm):
    """Means are over those who answered, as in practice.

    With a `schedule` the clients' lr is its factor of the round times lr, and is sent along.
    """

    sampler: Sampler
    schedule: Schedule | None = field(default=None, kw_only=True)

    def bind(self, problem):
        return self.fitted(problem)

    def client_state(self, x):
        return self.local_state(x)

    def start(self, ask, x):
        return Server(x, self.begin(x))

    def output(self, server):
        return server.x

    def opened(self, client, message):
        message, factor = (message, 1.0) if self.schedule is None else message
        return *super().opened(client, message)[:-1], factor

    def round(self, ask, server):
        def wrap(message):
            return message if self.schedule is None else (message, scheduled(1.0, self.schedule, ask.round))

        meeting = Meeting(ask, self.sampler, lambda replies: replies.mean(), wrap)
        new = Server(*self.play(meeting, *server))
        return if_any(meeting.replies, new, server)


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
