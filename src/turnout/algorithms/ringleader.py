"""Ringleader ASGD: asynchronous steps along a table with gradients of all clients."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from turnout.algorithms.async_fedavg import AsyncFedAvg, check_everyone_works
from turnout.core.records import record
from turnout.core.tree import add, positive, where


class Table(NamedTuple):
    """Sums of lambda_i times each client's updates [n, ...], and how many there are [n]."""

    sums: PyTree
    counts: Float[Array, " n"]


class RingleaderState(NamedTuple):
    """The parameters x, the table at hand and the next one, and the clients that a step is still to be made for [n]."""

    x: PyTree
    table: Table
    later: Table
    due: Bool[Array, " n"]


@record
class Ringleader(AsyncFedAvg):
    """Ringleader ASGD (Maranjyan and Richtarik, 2025, Algorithm 1), for clients with different distributions.

    First replies are collected until there is one of each client. Then x <- x + sum_i lambda_i (mean of the updates of i in the
    table) once for each client, when its next reply comes: the first step is for the client that completed the table. Replies of
    clients that had their step go to the next table, with which the collection goes on. An update is y_i - x_i, made by
    local steps from x_i to y_i, with one local step -lr grad f_i(x_i).

    All clients are at work, and each goes on at once: `in_flight` is n, and the sampler draws one client. The server keeps two
    updates for each client. The theorem wants lr of the order 1 / (n L) at most.

    Args:
        sampler: Who is sent x, among the clients that are not at work: one at a time.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 1 by default.
        in_flight: n, the number of clients.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Raises:
        UserError: On binding, where some clients are not at work, or the sampler draws several.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> t.run(t.Ringleader(t.Nice(1), lr=0.01, in_flight=8), problem, rounds=20).ledger.totals()["arrivals"]
        20
    """

    def bind(self, problem):
        bound = super().bind(problem)
        check_everyone_works(bound, problem)
        return bound

    def start(self, ask, x):
        stacked = jax.tree.map(lambda leaf: jnp.zeros((self._n, *leaf.shape), leaf.dtype), x)
        table = Table(stacked, jnp.zeros(self._n))
        return RingleaderState(super().start(ask, x), table, table, jnp.zeros(self._n, bool))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, table, later, due = server
        self.send(ask, x)
        replies = ask.next(1)
        i = jnp.where(replies.answered[0], replies.cohort.ids[0], self._n)
        collects, update = ~jnp.any(due), replies.total()
        now = collects | due.at[i].get(mode="fill", fill_value=False)
        table, later = _added(table, i, update, now), _added(later, i, update, ~now)
        steps = now & jnp.all(table.counts > 0) & (i < self._n)
        means = jax.tree.map(lambda sums: jnp.tensordot(1 / positive(table.counts), sums, 1), table.sums)
        x = add(x, means, jnp.where(steps, 1.0, 0.0))
        due = (due | (collects & steps)).at[i].set(False, mode="drop")
        ends = steps & ~jnp.any(due)
        empty = jax.tree.map(jnp.zeros_like, later)
        table, later = where(ends, (later, empty), (table, later))
        return RingleaderState(x, table, later, due)


def _added(table: Table, i, update: PyTree, where) -> Table:
    """Return the table with an update of client i added, if `where` holds."""
    factor = jnp.where(where, 1.0, 0.0)
    sums = jax.tree.map(lambda sums, new: sums.at[i].add(factor.astype(new.dtype) * new, mode="drop"), table.sums, update)
    return Table(sums, table.counts.at[i].add(factor, mode="drop"))
