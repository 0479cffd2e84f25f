"""Mime and MimeLite: local steps that mimic those of a central optimiser."""

from dataclasses import KW_ONLY, replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_steps, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import Count, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add
from turnout.optimisers import Optimiser
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


class MimeState(NamedTuple):
    """x, and the `state` s of the optimiser."""

    x: PyTree
    state: Any


@record
class Mime(Algorithm):
    """Mime: local steps from the server's optimiser state, with corrected gradients (Karimireddy et al., 2021, Algorithm 1).

    c = mean_{i in S} grad f_i(x) and x <- mean_{i in S} y_i, where y_i is x after local steps of `optimiser`, each from the
    server's state s, which stays as it is, with the gradient grad f_i(y) - grad f_i(x) + c, both on the rows of the step;
    s <- the state after a step with c.

    As in TensorFlow Federated, a step from s takes in its own gradient before it is made. A round is two exchanges, the first one
    for c, and a local step needs two queries. The means are over the clients who answered.

    Args:
        sampler: Who takes part in each round.
        optimiser: The optimiser, a first-order one.
        steps: Local steps, or a list with one number for each client; 5 by default.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        schedule: Factor of lr in each round, which is sent along.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Mime(t.Nice(4), t.optimisers.Sgd(0.05), steps=3), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"], trace.ledger.totals()["queries_total"]
        (10, 140)
    """

    sampler: Sampler
    optimiser: Optimiser
    _: KW_ONLY
    steps: Steps = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None
    schedule: Schedule | None = None

    cohorts_per_round = None

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        check_first_order(self)
        return fit_steps(self, problem)

    def start(self, ask, x):
        return MimeState(x, self.optimiser.start(x))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, state = server
        factor = round_lr(1.0, self.schedule, ask.round)
        replies = ask(self.sampler, self.gradient_at, (x, factor))
        ask.observe(replies)
        c = replies.mean()
        again = replace(replies.cohort, active=replies.answered)
        replies = ask(again, self.train, (x, c, pack(state, x), factor))
        new = MimeState(add(x, replies.mean()), self.optimiser.step(x, c, state)[1])
        return if_any(replies, new, server)

    @on_client
    def gradient_at(self, client, message):
        """grad f_i(x)."""
        return Done(client.grad(message[0]))

    @on_client
    def train(self, client, message):
        """y_i - x."""
        x, c, parts, factor = message
        optimiser = self.optimiser if factor is None else self.optimiser.with_lr_factor(factor)
        state = unpack(parts, self.optimiser, x)

        def step(rows, y):
            gradient = jax.tree.map(lambda c, g, b: c + g - b, c, rows.grad(y), rows.grad(x))
            return optimiser.step(y, gradient, state)[0]

        y, steps = local_steps(client, step, x, self.steps, self.batch, self.epochs)
        return Done(add(y, x, -1.0), queries=2 * steps)


@record
class MimeLite(Algorithm):
    """MimeLite: local steps from the server's optimiser state (Karimireddy et al., 2021, Algorithm 1).

    x <- mean_{i in S} y_i, where y_i is x after local steps of `optimiser` on f_i, each from the server's state s, which stays as
    it is; s <- the state after a step with mean_{i in S} grad f_i(x).

    It is `Mime` with plain gradients, in one exchange. Clients keep nothing.

    Args:
        sampler: Who takes part in each round.
        optimiser: The optimiser, a first-order one.
        steps: Local steps, or a list with one number for each client; 5 by default.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        schedule: Factor of lr in each round, which is sent along.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.MimeLite(t.Nice(4), t.optimisers.Sgd(0.05), steps=3), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"], trace.ledger.totals()["queries_total"]
        (5, 80)
    """

    sampler: Sampler
    optimiser: Optimiser
    _: KW_ONLY
    steps: Steps = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None
    schedule: Schedule | None = None

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        check_first_order(self)
        return fit_steps(self, problem)

    def start(self, ask, x):
        return MimeState(x, self.optimiser.start(x))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, state = server
        replies = ask(self.sampler, self.train, (x, pack(state, x), round_lr(1.0, self.schedule, ask.round)))
        ask.observe(replies)
        change, gradient = replies.mean()
        new = MimeState(add(x, change), self.optimiser.step(x, gradient, state)[1])
        return if_any(replies, new, server)

    @on_client
    def train(self, client, message):
        """y_i - x and grad f_i(x)."""
        x, parts, factor = message
        optimiser = self.optimiser if factor is None else self.optimiser.with_lr_factor(factor)
        state = unpack(parts, self.optimiser, x)

        def step(rows, y):
            return optimiser.step(y, rows.grad(y), state)[0]

        y, steps = local_steps(client, step, x, self.steps, self.batch, self.epochs)
        return Done((add(y, x, -1.0), client.grad(x)), queries=steps + 1)


def check_first_order(algorithm: Mime | MimeLite) -> None:
    """Raise `UserError` if the optimiser needs second derivatives."""
    if algorithm.optimiser.needs_hessian:
        kind, name = type(algorithm.optimiser).__name__, type(algorithm).__name__
        raise UserError(f"{name} sends the state of a first-order optimiser, which {kind} is not: take another optimiser")


def pack(state: Any, x: PyTree) -> list[PyTree]:
    """Return the parts of an optimiser's state as a message: those shaped like the parameters x, and single arrays.

    Args:
        state: State of an optimiser.
        x: Parameters.
    """
    return jax.tree.leaves(state, is_leaf=lambda part: _is_like(part, x))


def unpack(parts: list[PyTree], optimiser: Optimiser, x: PyTree) -> Any:
    """Return the state of `optimiser` that `pack` made the `parts` of.

    Args:
        parts: Parts of the state.
        optimiser: The optimiser.
        x: Parameters.
    """
    structure = jax.tree.structure(jax.eval_shape(optimiser.start, x), is_leaf=lambda part: _is_like(part, x))
    return jax.tree.unflatten(structure, parts)


def _is_like(part: Any, x: PyTree) -> bool:
    """Return whether `part` has the structure and the shapes of x."""
    if jax.tree.structure(part) != jax.tree.structure(x):
        return False
    return all(np.shape(a) == np.shape(b) for a, b in zip(jax.tree.leaves(part), jax.tree.leaves(x), strict=True))
