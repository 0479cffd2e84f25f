"""FedBuff: a step of the server for each buffer of replies that come in."""

from dataclasses import KW_ONLY

from turnout.algorithms.async_fedavg import AsyncFedAvg
from turnout.core.records import Count, NonNegative, Positive, record, static
from turnout.core.tree import add, zeros


@record
class FedBuff(AsyncFedAvg):
    """FedBuff, buffered asynchronous aggregation (Nguyen et al., 2022, Algorithm 1).

    x <- x + server_lr (1/buffer) sum_{cohorts that come in} mean_i s_i (y_i - x_i), s_i = (1 + tau_i)^-power, where client i got
    x_i tau_i steps ago and made local steps from there to y_i.

    As many replies as the sampler has places are taken at once, and as many clients get x. With one place, requests are sent
    whenever a reply comes, as in the paper, whose K is `buffer`. With more, the clients that are done wait for the others of
    the same size, and K is the product.

    Args:
        sampler: Who is sent x, among the clients that are not at work.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 1 by default.
        in_flight: Number of clients at work, at least the sampler's places; the first are drawn uniformly.
        server_lr: Step size of the server, > 0.
        buffer: Cohorts that come in before the server makes a step.
        power: Exponent of the weight of stale replies; 0 for equal weights.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> algorithm = t.FedBuff(t.Nice(1), lr=0.05, steps=3, in_flight=4, buffer=2)
        >>> trace = t.run(algorithm, problem, rounds=10, devices=t.Devices(seconds_per_query=[1, 2, 3, 4, 5, 6, 7, 8]))
        >>> trace.ledger.totals()["arrivals"], trace.ledger.totals()["contacts"]
        (20, 23)
    """

    _: KW_ONLY
    server_lr: Positive = 1.0
    buffer: Count = static(default=1)
    power: NonNegative = 0.5

    def round(self, ask, x):
        def come_in(total):
            self.send(ask, x)
            replies = ask.next(self._size)
            weight = (1.0 + self.staleness(ask, replies)) ** -self.power
            return add(total, replies.scaled(weight).mean())

        return add(x, ask.loop(self.buffer, come_in, zeros(x)), self.server_lr / self.buffer)
