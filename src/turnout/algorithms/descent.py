"""Descent from the server's parameters: what algorithms share whose clients take steps of their own."""

import numpy as np
from jaxtyping import Int

from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Client, Done
from turnout.core.records import Count, Positive, record, static
from turnout.core.tree import add
from turnout.local_training import LocalWork
from turnout.optimisers.schedules import Schedule, scheduled
from turnout.samplers import Sampler


@record
class LocalDescent(LocalWork, Algorithm):
    """y_i is x after E local steps y <- y - lr grad f_i(y).

    `steps` is E, on all rows or on `batch` random ones, or a list with one E_i for each client; or else there are `epochs` passes
    over the client's shuffled rows, each step with the gradient on the next `batch` of them, fewer at the end of a pass: E_i =
    epochs ceil(n_i / batch). With a `schedule` lr is its factor of the round times lr, and is sent along.
    """

    sampler: Sampler
    lr: Positive
    steps: Count | list[Count] | Int[np.ndarray, " n"] | None = None
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None

    def bind(self, problem):
        return self.fitted(problem)

    def message(self, ask, x):
        """Return the message to descend from x: x alone, or with this round's learning rate where that changes."""
        return x if self.schedule is None else (x, scheduled(self.lr, self.schedule, ask.round))

    def received(self, message):
        """Return x and the learning rate of a `message`."""
        return (message, self.lr) if self.schedule is None else message

    def descend(self, client: Client, message, also=None) -> Done:
        """Reply with y_i - x, one query a step; `also(y)`, where given, is added to the gradient of every step."""
        x, lr = self.received(message)
        factor = -lr

        def step(oracle, y):
            gradient = oracle.grad(y)
            return add(y, gradient if also is None else add(gradient, also(y)), factor)

        y, steps = self.work(client, step, x)
        return Done(add(y, x, -1.0), queries=steps)

    @on_client
    def train(self, client: Client, message) -> Done:
        """y_i - x."""
        return self.descend(client, message)
