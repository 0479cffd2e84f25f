"""Minibatch gradient descent, the minibatch being a cohort."""

from turnout.arithmetic import add
from turnout.exchange import Algorithm, Done, on_client
from turnout.records import Count, Positive, record, static
from turnout.samplers import Sampler
from turnout.schedules import Schedule, scheduled


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
