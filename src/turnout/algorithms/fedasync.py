"""FedAsync: the server mixes in each model that comes."""

from dataclasses import KW_ONLY

from turnout.algorithms.async_fedavg import AsyncFedAvg
from turnout.core.algorithm import on_client
from turnout.core.records import NonNegative, Share, record
from turnout.core.tree import add


@record
class FedAsync(AsyncFedAvg):
    """FedAsync, asynchronous federated optimisation (Xie, Koyejo and Gupta, 2019, Algorithm 1).

    x <- (1 - alpha_t) x + alpha_t y_i for each reply, alpha_t = alpha (1 + tau_i)^-power, where client i got the parameters tau_i
    steps ago and made local steps from there to y_i. Of several replies at once the mean of y_i, each with its alpha_t, is taken.

    Args:
        sampler: Who is sent x, among the clients that are not at work.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 1 by default.
        in_flight: Number of clients at work, at least the sampler's places; the first are drawn uniformly.
        alpha: Weight of a fresh reply, in [0, 1].
        power: Exponent of the weight of stale replies ("polynomial"); 0 for equal weights ("constant").
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> algorithm = t.FedAsync(t.Nice(1), lr=0.05, steps=3, in_flight=4)
        >>> t.run(algorithm, problem, rounds=10).ledger.totals()["arrivals"]
        10
    """

    _: KW_ONLY
    alpha: Share = 0.6
    power: NonNegative = 0.5

    def round(self, ask, x):
        self.send(ask, x)
        replies = ask.next(self._size)
        weight = self.alpha * (1.0 + self.staleness(ask, replies)) ** -self.power
        return add(x, replies.map(lambda i, y: add(y, x, -1.0)).scaled(weight).mean())

    @on_client
    def train(self, client, message):
        """y_i."""
        done = super().train(client, message)
        return done._replace(reply=add(message[0], done.reply))
