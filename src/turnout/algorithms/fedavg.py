"""Federated averaging, also known as local gradient descent."""

import jax

from turnout.exchange import Algorithm, Client, Done, on_client
from turnout.records import Count, Positive, record
from turnout.samplers import Sampler


@record
class FedAvg(Algorithm):
    """x <- x + mean_{i in S} (y_i - x), where y_i is x after E local steps y <- y - lr grad f_i(y).

    McMahan et al. (2017), Algorithm 1, with full-batch steps; `steps` is E. The mean is over those who answered, as in
    practice: for its unbiased counterpart see `MbLocalGd`.
    """

    sampler: Sampler
    lr: Positive
    steps: Count = 1

    def round(self, ask, x):
        return add(x, ask(self.sampler, self.train, x).mean())

    @on_client
    def train(self, client, x):
        return descend_locally(client, x, self.lr, self.steps)


def descend_locally(client: Client, x, lr, steps) -> Done:
    """Reply with y - x, where y is x after `steps` steps y <- y - lr grad f_i(y)."""
    y = client.loop(steps, lambda y: add(y, client.grad(y), -lr), x)
    return Done(add(y, x, -1.0), queries=steps)


def add(x, step, factor=1.0):
    """x + factor step, leaf by leaf."""
    return jax.tree.map(lambda x, step: x + factor * step, x, step)
