"""Minibatch gradient descent, the minibatch being a cohort."""

from turnout.algorithms.fedavg import add
from turnout.exchange import Algorithm, Done, on_client
from turnout.records import Positive, record
from turnout.samplers import Sampler


@record
class MbGd(Algorithm):
    """x <- x - lr sum_{i in S} (lambda_i / p_i) grad f_i(x): MB-GD of Cohort Squeeze, section 3.5."""

    sampler: Sampler
    lr: Positive

    def round(self, ask, x):
        return add(x, ask(self.sampler, self.gradient, x).average(), -self.lr)

    @on_client
    def gradient(self, client, x):
        return Done(client.grad(x))
