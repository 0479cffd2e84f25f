"""How much a client works between two exchanges: steps on all rows or on random batches, or passes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.client import Client
from turnout.core.errors import UserError


class LocalWork:
    """The checks and the loop of records with the fields `steps`, `batch` and `epochs`."""

    steps: Any
    batch: Any
    epochs: Any

    usual: ClassVar[int] = 5
    """The steps where neither `steps` nor `epochs` is given."""

    def __post_init__(self):
        name, given = type(self).__name__, [self.batch is not None, self.epochs is not None]
        if self.epochs is not None and self.steps is not None:
            raise UserError(f"{name} takes either steps, on all rows or on batches, or epochs: leave one of them out")
        if any(given) and not all(given) and self.steps is None:
            raise UserError(f"{name} needs both batch, the rows of a step, and epochs, the passes over all rows: give both")
        if not any(given) and self.steps is None:
            object.__setattr__(self, "steps", self.usual)

    def fitted(self, problem):
        """Return this record with one number of steps for all clients of `problem`, or one for each."""
        if not isinstance(self.steps, (list, np.ndarray)):
            return self
        whole = all(isinstance(steps, (int, np.integer)) and steps >= 1 for steps in self.steps)
        if not whole or len(self.steps) != problem.clients:
            name, n = type(self).__name__, problem.clients
            raise UserError(f"{name}.steps must be one whole number of at least 1, or a list of {n}, one for each client")
        return replace(self, steps=np.array(self.steps, "int32"))  # type: ignore

    def work(self, client: Client, body: Callable[[Client, PyTree], PyTree], carry: PyTree) -> tuple[PyTree, Any]:
        """Apply `carry = body(rows, carry)` in each step, `rows` being the client with the rows of the step; also count them."""
        if self.epochs is not None:
            return client.passes(client.key, self.epochs, self.batch, body, carry)
        steps = self.steps if jnp.ndim(self.steps) == 0 else jnp.asarray(self.steps)[client.id]
        if self.batch is None:
            return client.loop(steps, lambda carry: body(client, carry), carry), steps

        def step(numbered):
            number, carry = numbered
            return number + 1, body(client.batch(jax.random.fold_in(client.key, number), self.batch), carry)

        return client.loop(steps, step, (jnp.zeros((), "int32"), carry))[1], steps
