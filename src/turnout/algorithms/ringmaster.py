"""Ringmaster ASGD: asynchronous steps, but for gradients that are too old."""

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from turnout.algorithms.async_fedavg import AsyncFedAvg
from turnout.core.records import Count, record
from turnout.core.tree import add


class RingmasterState(NamedTuple):
    """The parameters x, how many steps were made, and how many when each client was last sent x [n]."""

    x: PyTree
    step: Int[Array, ""]
    since: Int[Array, " n"]


@record
class Ringmaster(AsyncFedAvg):
    """Ringmaster ASGD (Maranjyan, Tyurin and Richtarik, 2025), without stopped calculations.

    x <- x + (y_i - x_i) where the server made fewer than R steps since it sent x_i; an older reply is dropped. With one local
    step y_i - x_i = -lr grad f_i(x_i).

    The paper has clients with one distribution, each of which goes on at once: `in_flight` is n then, and the sampler `Nice(1)`.
    Its theorem wants R = max(1, ceil(sigma^2 / epsilon)) and lr = min(1 / (2 R L), epsilon / (4 L sigma^2)) for gradients of
    variance sigma^2 and |grad f|^2 <= epsilon. Of several replies at once the mean is taken, with 0 for those that are dropped.

    Args:
        sampler: Who is sent x, among the clients that are not at work.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 1 by default.
        in_flight: Number of clients at work, at least the sampler's places; the first are drawn uniformly.
        threshold: R.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> algorithm = t.Ringmaster(t.Nice(1), lr=0.02, in_flight=8, threshold=4)
        >>> t.run(algorithm, problem, rounds=10).ledger.totals()["arrivals"]
        10
    """

    _: KW_ONLY
    threshold: Count

    def start(self, ask, x):
        return RingmasterState(super().start(ask, x), jnp.zeros((), "int32"), jnp.zeros(self._n, "int32"))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, step, since = server
        cohort = self.send(ask, x)
        since = since.at[jnp.where(cohort.active, cohort.ids, self._n)].set(step, mode="drop")
        replies = ask.next(self._size)
        fresh = replies.answered & (step - since[replies.cohort.ids] < self.threshold)
        x = add(x, replies.scaled(jnp.where(fresh, 1.0, 0.0)).mean())
        return RingmasterState(x, step + jnp.any(fresh).astype("int32"), since)
