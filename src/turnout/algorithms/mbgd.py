"""Minibatch gradient descent, where a minibatch is a cohort."""

from dataclasses import KW_ONLY

from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record, static
from turnout.core.tree import add
from turnout.optimisers.schedules import Schedule, scheduled
from turnout.samplers import Sampler


@record
class MbGd(Algorithm):
    """Minibatch gradient descent: MB-GD of Cohort Squeeze, section 3.5.

    x <- x - lr sum_{i in S} (lambda_i / p_i) grad f_i(x).

    With `batch` it is MB-SGD (Woodworth et al., 2020): clients reply with the mean gradient of so many rows, drawn uniformly
    with replacement, which is unbiased for grad f_i(x).

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the server, > 0.
        schedule: Factor of lr in each round.
        batch: Rows that a client's gradient is taken on; None for all rows.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.MbGd(t.Nice(4), lr=0.05), problem, rounds=5)
        >>> trace.ledger.totals()["queries_total"]
        20
    """

    sampler: Sampler
    lr: Positive
    _: KW_ONLY
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)

    def round(self, ask, x):
        replies = ask(self.sampler, self.gradient, x)
        ask.observe(replies)
        return add(x, replies.average(), -scheduled(self.lr, self.schedule, ask.round))

    @on_client
    def gradient(self, client, x):
        """grad f_i(x), or its estimate from a batch."""
        rows = client if self.batch is None else client.batch(client.key, self.batch)
        return Done(rows.grad(x))
