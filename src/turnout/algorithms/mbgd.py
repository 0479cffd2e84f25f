"""Minibatch gradient descent, the minibatch being a cohort."""

from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record, static
from turnout.core.tree import add
from turnout.optimisers.schedules import Schedule, scheduled
from turnout.samplers import Sampler


@record
class MbGd(Algorithm):
    """x <- x - lr sum_{i in S} (lambda_i / p_i) grad f_i(x): MB-GD of Cohort Squeeze, section 3.5.

    With `batch` clients reply with the mean gradient of so many rows drawn uniformly with replacement, unbiased for grad f_i(x):
    MB-SGD (Woodworth et al., 2020). With a `schedule` lr is its factor of the round times lr.
    """

    sampler: Sampler
    lr: Positive
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)

    def round(self, ask, x):
        replies = ask(self.sampler, self.gradient, x)
        ask.observe(replies)
        return add(x, replies.average(), -scheduled(self.lr, self.schedule, ask.round))

    @on_client
    def gradient(self, client, x):
        rows = client if self.batch is None else client.batch(client.key, self.batch)
        return Done(rows.grad(x))
