"""MIFA: a step along the latest updates of all clients whenever some come in."""

from typing import NamedTuple

from jaxtyping import PyTree

from turnout.algorithms.async_fedavg import AsyncFedAvg
from turnout.core.algorithm import on_client
from turnout.core.records import record
from turnout.core.tree import add, zeros


class MifaState(NamedTuple):
    """The parameters x, and the mean of the clients' latest updates."""

    x: PyTree
    memory: PyTree


@record
class Mifa(AsyncFedAvg):
    """MIFA, memory-augmented impatient federated averaging (Gu et al., 2021, Algorithm 1), with requests in flight.

    x <- x + sum_i lambda_i G_i, where G_i = y_i - x_i is the latest update that came from client i: its local steps from x_i to
    y_i. G_i = 0 until the first one, where the paper waits for all clients.

    Clients keep G_i and send its change, so that one vector goes down and one comes up.

    Args:
        sampler: Who is sent x, among the clients that are not at work.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 1 by default.
        in_flight: Number of clients at work, at least the sampler's places; the first are drawn uniformly.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> t.run(t.Mifa(t.Nice(1), lr=0.01, in_flight=4), problem, rounds=10).ledger.totals()["vectors_up"]
        10
    """

    def start(self, ask, x):
        return MifaState(super().start(ask, x), zeros(x))

    def client_state(self, x):
        return zeros(x)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        self.send(ask, server.x)
        memory = add(server.memory, ask.next(self._size).total())
        return MifaState(add(server.x, memory), memory)

    @on_client
    def train(self, client, message):
        """The change of G_i."""
        done = super().train(client, message)
        return done._replace(reply=add(done.reply, client.state, -1.0), state=done.reply)
