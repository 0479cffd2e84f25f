"""Descent from the server's parameters: what algorithms share whose clients take steps of their own."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from turnout.errors import UserError
from turnout.exchange import Algorithm, Client, Done, on_client
from turnout.records import Count, Positive, record, static
from turnout.samplers import Sampler


@record
class LocalDescent(Algorithm):
    """y_i is x after E local steps y <- y - lr grad f_i(y).

    `steps` is E, on all rows; or else there are `epochs` passes over the client's shuffled rows, each step with the gradient on
    the next `batch` of them, fewer at the end of a pass: E = epochs ceil(n_i / batch). With `decay` lr falls as
    lr / (1 + t / decay), t = 0, 1, ... counting rounds, and is sent along.
    """

    sampler: Sampler
    lr: Positive
    steps: Count | None = None
    decay: Positive | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None

    usual: ClassVar[int] = 5
    """E where neither `steps` nor `epochs` is given."""

    def __post_init__(self):
        name, given = type(self).__name__, [self.batch is not None, self.epochs is not None]
        if any(given) and self.steps is not None:
            raise UserError(f"{name} takes either steps, on all rows, or batch and epochs: leave one of them out")
        if any(given) and not all(given):
            raise UserError(f"{name} needs both batch, the rows of a step, and epochs, the passes over all rows: give both")
        if not any(given) and self.steps is None:
            object.__setattr__(self, "steps", self.usual)

    def message(self, ask, x):
        """Return the message to descend from x: x alone, or with this round's learning rate where that falls."""
        return x if self.decay is None else (x, decayed(self, ask.round))

    @on_client
    def train(self, client: Client, message) -> Done:
        """y_i - x."""
        x, lr = (message, self.lr) if self.decay is None else message
        if self.batch is None:
            y, steps = client.loop(self.steps, lambda y: add(y, client.grad(y), -lr), x), self.steps
        else:
            work = client.key, self.epochs, self.batch
            y, steps = client.passes(*work, lambda batch, y: add(y, batch.grad(y), -lr), x)
        return Done(add(y, x, -1.0), queries=steps)


def decayed(algorithm, round):
    """Return lr / (1 + t / decay), t = round - 1; lr itself without `decay`."""
    if algorithm.decay is None:
        return algorithm.lr
    return jnp.asarray(algorithm.lr) / (1 + (round - 1).astype(jnp.result_type(float)) / algorithm.decay)


def add(x, step, factor=1.0):
    """x + factor step, leaf by leaf."""
    return jax.tree.map(lambda x, step: x + factor * step, x, step)
