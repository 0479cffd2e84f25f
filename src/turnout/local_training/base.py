"""What rounds of local training share, whoever plays them."""

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int, PyTree

from turnout.core.algorithm import Ask
from turnout.core.client import Client
from turnout.core.errors import UserError
from turnout.core.records import Count, record, static
from turnout.core.replies import Replies
from turnout.local_training.work import LocalWork
from turnout.optimisers import Optimiser
from turnout.optimisers.base import hessian_probe


class Objective(NamedTuple):
    """What a client minimises: f_i, or f_i + (pull / 2) |. - centre|^2."""

    centre: PyTree = None
    pull: Any = 0.0

    def grad(self, rows: Client, y: PyTree) -> PyTree:
        """The gradient at y, with `rows` in the place of f_i: one query."""
        gradient = rows.grad(y)
        if self.centre is None:
            return gradient
        return jax.tree.map(lambda g, y, x: g + self.pull * (y - x), gradient, y, self.centre)

    def hvp(self, rows: Client, y: PyTree, v: PyTree) -> PyTree:
        """The Hessian at y times v: one query."""
        product = rows.hvp(y, v)
        return product if self.centre is None else jax.tree.map(lambda h, v: h + self.pull * v, product, v)


class Meeting:
    """A cohort that is asked once or more often within a round: after the first time those alone who answered."""

    replies: Replies

    def __init__(
        self, ask: Ask, who, mean: Callable[[Replies], PyTree], wrap: Callable[[PyTree], PyTree] = lambda message: message
    ):
        self._ask, self._who, self._mean, self._wrap = ask, who, mean, wrap
        self._met = False

    def mean(self, method: Callable, message: PyTree) -> PyTree:
        """Return the mean of the replies to `message`; zero if there are none."""
        self.replies = self._ask(self._who, method, self._wrap(message))
        if not self._met:
            self._ask.observe(self.replies)
        self._who, self._met = replace(self.replies.cohort, active=self.replies.answered), True
        return self._mean(self.replies)


@record
class LocalTraining(LocalWork):
    """Rounds in which clients work on their own, and a server makes new parameters of means of what they reply.

    The work is `steps` steps, on all rows or on `batch` random ones, or a list with the steps of each client; or else `epochs`
    passes over the shuffled rows, each step on the next `batch` of them.
    """

    steps: Count | list[Count] | Int[np.ndarray, " n"] | None = field(default=None, kw_only=True)
    batch: Count | None = static(default=None, kw_only=True)
    epochs: Count | None = field(default=None, kw_only=True)

    def opened(self, client: Client, message: PyTree) -> tuple[PyTree, PyTree, Objective, Any]:
        """Return what was sent, the client's state, what it is to minimise, and the factor of its steps."""
        return message, client.state, Objective(), 1.0

    def closed(self, message: PyTree, state: PyTree) -> PyTree:
        """Return what a client that was sent `message` keeps, made of its new `state`."""
        return state

    def local_state(self, x: PyTree) -> PyTree:
        """Return what a client keeps from round to round, before the first one; None if nothing."""
        return None

    def begin(self, x: PyTree) -> PyTree:
        """Return what the server keeps beside x, before the first round."""
        return None

    def play(self, meeting: Meeting, x: PyTree, memory: PyTree) -> tuple[PyTree, PyTree]:
        """Return x and what the server keeps after a round."""
        raise UserError(f"{type(self).__name__} has no play(self, meeting, x, memory): write one")


def moved(optimiser: Optimiser, client: Client, objective: Objective, gradient, carry, rows: Client) -> tuple[PyTree, Any]:
    """Return (y, state) after a step of `optimiser` from `carry` = (y, state) on `rows` of `client`."""
    y, state = carry
    return optimiser.step(y, gradient, state, hessian_probe(lambda v: objective.hvp(rows, y, v), y, client.key))
