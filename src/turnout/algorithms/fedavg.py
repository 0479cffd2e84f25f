"""Federated averaging, also known as local gradient descent."""

import jax
import jax.numpy as jnp

from turnout.errors import UserError
from turnout.exchange import Algorithm, Client, Done, on_client
from turnout.records import Count, Positive, record, static
from turnout.samplers import Sampler


@record
class FedAvg(Algorithm):
    """x <- x + mean_{i in S} (y_i - x), where y_i is x after E local steps y <- y - lr grad f_i(y).

    McMahan et al. (2017), Algorithm 1: `steps` is E, on all rows; or else there are `epochs` passes over the client's shuffled
    rows, each step with the gradient on the next `batch` of them, fewer at the end of a pass: E = epochs ceil(n_i / batch).
    The mean is over those who answered, as in practice: for its unbiased counterpart see `MbLocalGd`. With `decay` lr falls as
    lr / (1 + t / decay), t = 0, 1, ... counting rounds, and is sent along.
    """

    sampler: Sampler
    lr: Positive
    steps: Count | None = None
    decay: Positive | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None

    def __post_init__(self):
        settle_work(self, steps=1)

    def round(self, ask, x):
        replies = ask(self.sampler, self.train, with_rate(self, ask, x))
        ask.observe(replies)
        return add(x, replies.mean())

    @on_client
    def train(self, client, message):
        """y_i - x."""
        return descend_locally(self, client, message)


def settle_work(algorithm, steps: int) -> None:
    """Check that local work is either `steps` or `epochs` of a `batch` each, and fill in `steps` where neither is given."""
    name, given = type(algorithm).__name__, [algorithm.batch is not None, algorithm.epochs is not None]
    if any(given) and algorithm.steps is not None:
        raise UserError(f"{name} takes either steps, on all rows, or batch and epochs: leave one of them out")
    if any(given) and not all(given):
        raise UserError(f"{name} needs both batch, the rows of a step, and epochs, the passes over all rows: give both")
    if not any(given) and algorithm.steps is None:
        object.__setattr__(algorithm, "steps", steps)


def with_rate(algorithm, ask, x):
    """Return the message to descend from x: x alone, or with this round's learning rate where that falls."""
    return x if algorithm.decay is None else (x, decayed(algorithm, ask.round))


def decayed(algorithm, round):
    """Return lr / (1 + t / decay), t = round - 1; lr itself without `decay`."""
    if algorithm.decay is None:
        return algorithm.lr
    return jnp.asarray(algorithm.lr) / (1 + (round - 1).astype(jnp.result_type(float)) / algorithm.decay)


def descend_locally(algorithm, client: Client, message) -> Done:
    """Reply with y - x, where y is x after `steps` steps y <- y - lr grad f_i(y), or after `epochs` passes with minibatches."""
    x, lr = (message, algorithm.lr) if algorithm.decay is None else message
    if algorithm.batch is None:
        y, steps = client.loop(algorithm.steps, lambda y: add(y, client.grad(y), -lr), x), algorithm.steps
    else:
        work = client.key, algorithm.epochs, algorithm.batch
        y, steps = client.passes(*work, lambda batch, y: add(y, batch.grad(y), -lr), x)
    return Done(add(y, x, -1.0), queries=steps)


def add(x, step, factor=1.0):
    """x + factor step, leaf by leaf."""
    return jax.tree.map(lambda x, step: x + factor * step, x, step)
