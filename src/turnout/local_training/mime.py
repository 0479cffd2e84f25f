"""Mime and MimeLite: local steps that mimic a central optimiser."""

from dataclasses import field
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import record
from turnout.core.tree import add
from turnout.local_training.base import LocalTraining
from turnout.optimisers import Optimiser


@record
class MimeLite(LocalTraining):
    """x <- mean_{i in S} y_i, y_i being x after local steps of `optimiser`, each from the server's state s, which stays as it is;

    s <- that after a step with mean_{i in S} grad f_i(x). Karimireddy et al. (2021, Algorithm 1, MimeLite), as TensorFlow
    Federated has it: a step from s takes in its own gradient before it is made. Clients keep nothing; one exchange.
    """

    optimiser: Optimiser = field(kw_only=True)

    def fitted(self, problem):
        if self.optimiser.needs_hessian:
            kind, name = type(self.optimiser).__name__, type(self).__name__
            raise UserError(f"{name} sends the state of a first-order optimiser, which {kind} is not: take another optimiser")
        return super().fitted(problem)

    def begin(self, x):
        return self.optimiser.start(x)

    def play(self, meeting, x, memory):
        change, gradient = meeting.mean(self.train, (x, packed(memory, x)))
        return add(x, change), self.optimiser.step(x, gradient, memory)[1]

    @on_client
    def train(self, client, message):
        """y_i - x and grad f_i(x)."""
        (x, parts), _, objective, factor = self.opened(client, message)
        optimiser, state = self.optimiser.with_lr_factor(factor), unpacked(parts, self.optimiser, x)

        def step(rows, y):
            return optimiser.step(y, objective.grad(rows, y), state)[0]

        y, steps = self.work(client, step, x)
        return Done((add(y, x, -1.0), objective.grad(client, x)), queries=steps + 1)


@record
class Mime(MimeLite):
    """As `MimeLite`, with c + grad f_i(y) - grad f_i(x) for each gradient grad f_i(y), on the same rows, c = mean grad f_i(x).

    Karimireddy et al. (2021, Algorithm 1, Mime). Two exchanges, the first one for c; a local step needs two queries.
    """

    def play(self, meeting, x, memory):
        gradient = meeting.mean(self.look, x)
        change = meeting.mean(self.train, ((x, gradient), packed(memory, x)))
        return add(x, change), self.optimiser.step(x, gradient, memory)[1]

    @on_client
    def look(self, client, message):
        """grad f_i(x)."""
        x, _, objective, _ = self.opened(client, message)
        return Done(objective.grad(client, x))

    @on_client
    def train(self, client, message):
        """y_i - x."""
        ((x, mean), parts), _, objective, factor = self.opened(client, message)
        optimiser, state = self.optimiser.with_lr_factor(factor), unpacked(parts, self.optimiser, x)

        def step(rows, y):
            gradient = jax.tree.map(lambda c, g, b: c + g - b, mean, objective.grad(rows, y), objective.grad(rows, x))
            return optimiser.step(y, gradient, state)[0]

        y, steps = self.work(client, step, x)
        return Done(add(y, x, -1.0), queries=2 * steps)


def packed(state: Any, x: PyTree) -> list[PyTree]:
    """Return the parts of an optimiser's state that can be sent: what is structured like the parameters x, and single arrays."""
    return jax.tree.leaves(state, is_leaf=lambda part: _like(part, x))


def unpacked(parts: list[PyTree], optimiser: Optimiser, x: PyTree) -> Any:
    """Return the state that the `parts` of one of `optimiser` are from."""
    structure = jax.tree.structure(jax.eval_shape(optimiser.start, x), is_leaf=lambda part: _like(part, x))
    return jax.tree.unflatten(structure, parts)


def _like(part: Any, x: PyTree) -> bool:
    """Whether `part` has the structure and shapes of x."""
    if jax.tree.structure(part) != jax.tree.structure(x):
        return False
    return all(np.shape(a) == np.shape(b) for a, b in zip(jax.tree.leaves(part), jax.tree.leaves(x), strict=True))
