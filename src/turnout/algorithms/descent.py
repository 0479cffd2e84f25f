"""Descent from the server's parameters: what algorithms share whose clients take steps of their own."""

from dataclasses import replace
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from turnout.arithmetic import add
from turnout.errors import UserError
from turnout.exchange import Algorithm, Client, Done, on_client
from turnout.records import Count, Positive, record, static
from turnout.samplers import Sampler
from turnout.schedules import Schedule, scheduled


@record
class LocalDescent(Algorithm):
    """y_i is x after E local steps y <- y - lr grad f_i(y).

    `steps` is E, on all rows, or a list with one E_i for each client; or else there are `epochs` passes over the client's
    shuffled rows, each step with the gradient on the next `batch` of them, fewer at the end of a pass: E_i =
    epochs ceil(n_i / batch). With a `schedule` lr is its factor of the round times lr, and is sent along.
    """

    sampler: Sampler
    lr: Positive
    steps: Count | list[Count] | Int[np.ndarray, " n"] | None = None
    schedule: Schedule | None = None
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

    def bind(self, problem):
        if not isinstance(self.steps, (list, np.ndarray)):
            return self
        whole = all(isinstance(steps, (int, np.integer)) and steps >= 1 for steps in self.steps)
        if not whole or len(self.steps) != problem.clients:
            name, n = type(self).__name__, problem.clients
            raise UserError(f"{name}.steps must be one whole number of at least 1, or a list of {n}, one for each client")
        return replace(self, steps=np.array(self.steps, "int32"))

    def message(self, ask, x):
        """Return the message to descend from x: x alone, or with this round's learning rate where that changes."""
        return x if self.schedule is None else (x, scheduled(self.lr, self.schedule, ask.round))

    def received(self, message):
        """Return x and the learning rate of a `message`."""
        return (message, self.lr) if self.schedule is None else message

    def descend(self, client: Client, message, also=None) -> Done:
        """Reply with y_i - x, one query a step; `also(y)`, where given, is added to the gradient of every step."""
        x, lr = self.received(message)

        def step(oracle, y):
            gradient = oracle.grad(y)
            return add(y, gradient if also is None else add(gradient, also(y)), -lr)

        if self.batch is None:
            steps = self.steps if jnp.ndim(self.steps) == 0 else jnp.asarray(self.steps)[client.id]
            y = client.loop(steps, lambda y: step(client, y), x)
        else:
            y, steps = client.passes(client.key, self.epochs, self.batch, step, x)
        return Done(add(y, x, -1.0), queries=steps)

    @on_client
    def train(self, client: Client, message) -> Done:
        """y_i - x."""
        return self.descend(client, message)
