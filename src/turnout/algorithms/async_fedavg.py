"""What asynchronous algorithms share: how many requests are in flight, and local steps as in FedAvg."""

from dataclasses import KW_ONLY, field, replace
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.fedavg import FedAvg
from turnout.client_solvers.local_sgd import round_lr
from turnout.core.algorithm import Ask
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import Count, record, static
from turnout.core.replies import Replies
from turnout.problems.base import Problem
from turnout.samplers import Nice, Sampler
from turnout.samplers.base import places_of_cohorts


@record
class AsyncFedAvg(FedAvg):
    """Base of algorithms that keep `in_flight` clients at work, which make the local steps of `FedAvg`.

    The first clients are drawn uniformly.

    Args:
        in_flight: Number of clients at work, at least the sampler's places.
        opening: Draws the first clients. Set by `bind`.
        cohort: Places of the sampler. Set by `bind`.
        clients: n. Set by `bind`.

    Raises:
        UserError: On binding, where `in_flight` is less than that, or there are fewer clients.
    """

    _: KW_ONLY
    in_flight: Count = static()
    opening: Nice | None = field(default=None, repr=False)
    cohort: Count | None = static(default=None, repr=False)
    clients: Count | None = static(default=None, repr=False)

    cohorts_per_round = None

    @property
    def places(self):
        return self.in_flight

    @property
    def _size(self) -> Any:
        """The places of the sampler, once `bind` has been called."""
        return self.cohort

    @property
    def _n(self) -> Any:
        """n, once `bind` has been called."""
        return self.clients

    def bind(self, problem):
        kind, size = type(self).__name__, places_of_cohorts(self.sampler, problem.population)
        if self.in_flight > problem.clients:
            raise UserError(f"{kind}.in_flight is {self.in_flight}, but there are {problem.clients} clients: lower it")
        if self.in_flight < size:
            raise UserError(f"{kind}.in_flight is {self.in_flight}, but a draw has {size} clients: raise it, or draw fewer")
        rest = self.in_flight - size
        return replace(super().bind(problem), opening=Nice(rest) if rest else None, cohort=size, clients=problem.clients)

    def start(self, ask, x):
        if self.opening is not None:
            self.send(ask, x, self.opening)
        return x

    def send(self, ask: Ask, x: PyTree, sampler: Sampler | None = None) -> Cohort:
        """Send x to a cohort, and return it.

        Args:
            ask: Access to the clients.
            x: Parameters.
            sampler: Draws the cohort; None: the algorithm's sampler.
        """
        return ask.send(sampler or self.sampler, self.train, (x, round_lr(self.lr, self.schedule, ask.round)))

    @staticmethod
    def staleness(ask: Ask, replies: Replies) -> Float[Array, " m"]:
        """Return how many steps the server made since it sent each client x, where each round sends x before its step.

        Args:
            ask: Access to the clients.
            replies: Replies of this round.
        """
        return jnp.minimum(ask.round - replies.sent, ask.round - 1).astype(float)


def check_everyone_works(bound: AsyncFedAvg, problem: Problem) -> None:
    """Raise `UserError` unless all clients are at work, and one reply is taken at a time.

    Args:
        bound: An algorithm that is bound to the problem.
        problem: The problem.
    """
    if (bound.cohort, bound.in_flight) != (1, problem.clients):
        kind = type(bound).__name__
        raise UserError(f"{kind} has all clients at work: take the sampler nice of size 1, and in_flight {problem.clients}")
