"""Local SGD: the steps that a client takes between two exchanges, on all of its rows, on random batches or in passes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PyTree

from turnout.client_solvers.measured_client import MeasuredClient
from turnout.core.client import Client, Done
from turnout.core.errors import UserError
from turnout.core.local_methods import norm
from turnout.core.records import Count
from turnout.core.tree import add, positive
from turnout.optimisers.schedules import Schedule, scheduled

Steps = Count | list[Count] | Int[np.ndarray, " n"] | None
"""The number of local steps: one for all clients, or one for each; None for the default, or where there are `epochs`."""


def check_local_work(algorithm: Any, default: int = 5) -> None:
    """Check the fields `steps`, `batch` and `epochs` of a record, and set `steps` to `default` if none of them is given.

    Args:
        algorithm: A record with these fields.
        default: Number of `steps` if none of the fields is given.

    Raises:
        UserError: If both steps and epochs are given, or only one of batch and epochs without steps.
    """
    name, steps, batch, epochs = type(algorithm).__name__, algorithm.steps, algorithm.batch, algorithm.epochs
    if epochs is not None and steps is not None:
        raise UserError(f"{name} takes either steps, on all rows or on batches, or epochs: leave one of them out")
    if steps is None and (batch is None) != (epochs is None):
        raise UserError(f"{name} needs both batch, the rows of a step, and epochs, the passes over all rows: give both")
    if steps is None and batch is None:
        object.__setattr__(algorithm, "steps", default)


def fit_steps(algorithm: Any, problem: Any) -> Any:
    """Return the record `algorithm` with a list of `steps` turned into an array [n].

    Args:
        algorithm: A record with a field `steps`.
        problem: The problem.

    Raises:
        UserError: If the list does not hold one whole number of at least 1 for each client of `problem`.
    """
    steps, n = algorithm.steps, problem.clients
    if not isinstance(steps, (list, np.ndarray)):
        return algorithm
    if len(steps) != n or not all(isinstance(count, (int, np.integer)) and count >= 1 for count in steps):
        name = type(algorithm).__name__
        raise UserError(f"{name}.steps must be one whole number of at least 1, or a list of {n}, one for each client")
    return replace(algorithm, steps=np.array(steps, "int32"))


def round_lr(lr: Any, schedule: Schedule | None, round: Any) -> Any:
    """Return the learning rate to send in this round; None without a schedule, because clients know lr.

    Args:
        lr: Learning rate of the record.
        schedule: Factor of `lr` in each round.
        round: Number of the round, from 1.
    """
    return None if schedule is None else scheduled(lr, schedule, round)


def local_steps(
    client: Client, step: Callable[[Client, PyTree], PyTree], carry: PyTree, steps: Any, batch: int | None, epochs: Any
) -> tuple[PyTree, Any]:
    """Apply `carry = step(rows, carry)` in each local step, and return the last carry and the number of steps.

    Args:
        client: The client.
        step: One step; `rows` is the client with the loss on the rows of the step.
        carry: What the steps change, a pytree of arrays.
        steps: Number of steps, or one for each client [n]; None with `epochs`.
        batch: Rows of a step, drawn uniformly with replacement, or the next ones of a pass; None for all rows.
        epochs: Passes over the shuffled rows, of ceil(n_i / batch) steps each; None with `steps`.
    """
    if epochs is not None:
        return client.passes(client.key, epochs, batch, step, carry)
    steps = steps if jnp.ndim(steps) == 0 else jnp.asarray(steps)[client.id]
    if batch is None:
        return client.loop(steps, lambda carry: step(client, carry), carry), steps

    def step_on_batch(numbered):
        number, carry = numbered
        return number + 1, step(client.batch(jax.random.fold_in(client.key, number), batch), carry)

    return client.loop(steps, step_on_batch, (jnp.zeros((), "int32"), carry))[1], steps


def own_training(client: Client, x: PyTree, lr: Any, steps: Any, batch: int | None, epochs: Any) -> PyTree:
    """Return y - x, where y is what the client's own training makes of x.

    Args:
        client: The client, which trains itself.
        x: Parameters to start from.
        lr: Step size, which the client is told, as it is the others.
        steps: As in `local_steps`.
        batch: As in `local_steps`.
        epochs: As in `local_steps`.
    """
    steps = steps if steps is None or jnp.ndim(steps) == 0 else jnp.asarray(steps)[client.id]
    asked = {"lr": lr, "steps": steps, "batch": batch, "epochs": epochs}
    return add(client.trained(x, {name: value for name, value in asked.items() if value is not None}), x, -1.0)


def local_sgd(
    client: Client, x: PyTree, lr: Any, steps: Any, batch: int | None, epochs: Any,
    direction: Callable[[Client, PyTree], PyTree] | None = None,
) -> Done:  # fmt: skip
    """Reply with y - x, where y is x after local steps y <- y - lr d(y); each is one query.

    A client that trains itself does so in their place, where d is the gradient, and its queries are not known. A
    `MeasuredClient` also measures its curvature, for one query more, or with batches twice as many: see `AutoLr`.

    Args:
        client: The client.
        x: Parameters to start from.
        lr: Step size.
        steps: As in `local_steps`.
        batch: As in `local_steps`.
        epochs: As in `local_steps`.
        direction: d(y), a function of the client on the rows of a step and of y; None for grad f_i(y).
    """
    if isinstance(client, MeasuredClient):
        return _measured_sgd(client, x, lr, steps, batch, epochs, direction or (lambda rows, y: rows.grad(y)))
    if client.trains_itself and direction is None:
        return Done(own_training(client, x, lr, steps, batch, epochs), queries=0)
    factor = -lr

    def step(rows: Client, y: PyTree) -> PyTree:
        return rows.step(y, factor) if direction is None else add(y, direction(rows, y), factor)

    y, count = local_steps(client, step, x, steps, batch, epochs)
    return Done(add(y, x, -1.0), queries=count)


PROBE = 1e-3
"""How far the first step of a run moves that has no step size yet."""


def _measured_sgd(client: MeasuredClient, x: PyTree, lr: Any, steps: Any, batch: int | None, epochs: Any, direction: Any) -> Done:
    """Do as `local_sgd` with an lr that is 0 where it is not known, and leave the curvature in the client."""

    def step(rows: Client, carry: tuple) -> tuple:
        y, slope, rate, curvature = carry
        # Both gradients are on the rows of the step; on all rows the second one is the first one of the next step.
        slope = direction(rows, y) if slope is None else slope
        rate = jnp.where(rate > 0, rate, PROBE / positive(norm(slope)).astype(rate.dtype))
        new = add(y, slope, -rate)
        after = direction(rows, new)
        bent, moved = norm(add(after, slope, -1.0)), norm(add(new, y, -1.0))
        curvature = jnp.maximum(curvature, (bent / positive(moved)).astype(rate.dtype))
        limit = jnp.where(lr > 0, jnp.minimum(rate, 2 / positive(curvature)), 1 / positive(curvature))
        return new, None if batch else after, jnp.where(curvature > 0, limit, rate), curvature

    lr = jnp.asarray(lr)
    first = x, None if batch else direction(client, x), lr, jnp.zeros_like(lr)
    (y, _, _, client.curvature), count = local_steps(client, step, first, steps, batch, epochs)
    return Done(add(y, x, -1.0), queries=2 * count if batch else count + 1)
