"""Federated averaging, also known as local gradient descent."""

import jax
import jax.numpy as jnp

from turnout.exchange import Algorithm, Client, Done, on_client
from turnout.records import Count, Positive, record
from turnout.samplers import Sampler


@record
class FedAvg(Algorithm):
    """x <- x + mean_{i in S} (y_i - x), where y_i is x after E local steps y <- y - lr grad f_i(y).

    McMahan et al. (2017), Algorithm 1, with full-batch steps; `steps` is E. The mean is over those who answered, as in
    practice: for its unbiased counterpart see `MbLocalGd`. With `decay` lr falls as lr / (1 + t / decay), t = 0, 1, ... counting
    rounds, and is sent along.
    """

    sampler: Sampler
    lr: Positive
    steps: Count = 1
    decay: Positive | None = None

    def round(self, ask, x):
        return add(x, ask(self.sampler, self.train, with_rate(self, ask, x)).mean())

    @on_client
    def train(self, client, message):
        """y_i - x."""
        return descend_locally(self, client, message)


def with_rate(algorithm, ask, x):
    """Return the message to descend from x: x alone, or with this round's learning rate where that falls."""
    return x if algorithm.decay is None else (x, decayed(algorithm, ask.round))


def decayed(algorithm, round):
    """Return lr / (1 + t / decay), t = round - 1; lr itself without `decay`."""
    if algorithm.decay is None:
        return algorithm.lr
    return jnp.asarray(algorithm.lr) / (1 + (round - 1).astype(jnp.result_type(float)) / algorithm.decay)


def descend_locally(algorithm, client: Client, message) -> Done:
    """Reply with y - x, where y is x after `steps` steps y <- y - lr grad f_i(y)."""
    x, lr = (message, algorithm.lr) if algorithm.decay is None else message
    y = client.loop(algorithm.steps, lambda y: add(y, client.grad(y), -lr), x)
    return Done(add(y, x, -1.0), queries=algorithm.steps)


def add(x, step, factor=1.0):
    """x + factor step, leaf by leaf."""
    return jax.tree.map(lambda x, step: x + factor * step, x, step)
