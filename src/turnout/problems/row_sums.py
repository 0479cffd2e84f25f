"""Sums over rows, of which clients' functions are made, and what an oracle can be asked of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from turnout.core.errors import UserError
from turnout.core.records import record
from turnout.problems.base import Problem
from turnout.problems.row_formats import take


@record
class Point:
    """Parameters by name, of which some vary: derivatives are along these, and a `Grouped` problem joins both.

    Args:
        varied: The leaves that derivatives are taken along, by name.
        fixed: The other leaves, by name.
        key: Random key of a pass in training; None: the pass is no training.
    """

    varied: dict[str, Any]
    fixed: dict[str, Any]
    key: Any = None


def of_rows(order: str, problem, rows: PyTree, weights: Float[Array, " b"]) -> Callable:
    """Return the function of x that the oracle `order` is of: sum_r weights_r losses_r(x), or that of what rows are counted.

    For "training" it also returns the statistics after this pass, times the sum of the weights; for "accuracy" it is the sum over
    rows that are classified correctly.

    Args:
        order: "value", "loss", "accuracy", "value_and_grad", "hvp", "hessian" or "training".
        problem: The problem.
        rows: A batch of b rows: arrays with the first axis b.
        weights: Weight of each row [b].
    """
    if order == "accuracy":
        return lambda x: correct_sum(problem, x, rows, weights)
    if order == "training":
        return lambda x: training_sum(problem, x, rows, weights)
    return lambda x: loss_sum(problem, x, rows, weights)


def of_rest(order: str, problem) -> Callable:
    """Return the function of x that each client's function has beside its rows: the regulariser; "loss" has none.

    Args:
        order: "value", "loss", "accuracy", "value_and_grad", "hvp", "hessian" or "training".
        problem: The problem.
    """
    if order in ("accuracy", "loss"):
        return lambda x: 0.0
    if order == "training":
        return lambda x: (problem.regulariser(x), {name: jnp.zeros_like(x.fixed[name]) for name in problem.statistics})
    return problem.regulariser


def loss_sum(problem, x: PyTree, rows: PyTree, weights: Float[Array, " b"]) -> Float[Array, ""]:
    """Return sum_r weights_r losses_r(x) over a batch of b rows.

    Args:
        problem: The problem.
        x: Parameters.
        rows: A batch of b rows: arrays with the first axis b.
        weights: Weight of each row [b].
    """
    losses = per_row(problem, problem.losses, x, rows, weights)
    if jnp.shape(losses) != weights.shape or not jnp.issubdtype(jnp.result_type(losses), jnp.floating):
        raise UserError(
            f"{type(problem).__name__}.losses returns {_named(losses)} for {weights.size} rows, but a loss is a floating-point "
            f"number for each row: return an array of shape ({weights.size},)"
        )
    return weights @ losses


def training_sum(problem, x: Point, rows: PyTree, weights: Float[Array, " b"]) -> tuple[Float[Array, ""], dict[str, Array]]:
    """Return sum_r weights_r losses_r(x) in training, and the statistics after this pass times the sum of the weights.

    Args:
        problem: The problem.
        x: Parameters.
        rows: A batch of b rows: arrays with the first axis b.
        weights: Weight of each row [b].
    """
    losses, statistics = problem.training(x, rows, weights > 0, x.key)
    share = jnp.sum(weights)
    return weights @ losses, {name: share.astype(leaf.dtype) * leaf for name, leaf in statistics.items()}


def correct_sum(problem: Problem, x: PyTree, rows: PyTree, weights: Float[Array, " b"]) -> Float[Array, ""]:
    """Return sum_r weights_r correct_r(x) over a batch of b rows.

    Args:
        problem: The problem.
        x: Parameters.
        rows: A batch of b rows: arrays with the first axis b.
        weights: Weight of each row [b].
    """
    return weights @ per_row(problem, problem.correct, x, rows, weights)


def per_row(problem, function: Callable, x: PyTree, rows: PyTree, weights) -> Float[Array, " b"] | Int[Array, " b"]:
    """Return function(x, rows) [b] of a batch of b rows; rows of weight 0 are padding, and not `counted` where rows mix.

    Args:
        problem: The problem.
        function: Function of x and rows, with one number for each row [b].
        x: Parameters.
        rows: A batch of b rows: arrays with the first axis b.
        weights: Weight of each row [b], 0 for padding.
    """
    values = function(x, rows, counted=weights > 0) if problem.mixes_rows else function(x, rows)
    if not isinstance(values, (jax.Array, np.ndarray)):
        raise UserError(f"{type(problem).__name__}.{function.__name__} returns {_named(values)}, but needs an array: return one")
    return jnp.asarray(values)


def _named(value) -> str:
    """Return what a value is, in words."""
    if isinstance(value, (jax.Array, np.ndarray)):
        return f"{value.dtype} of shape {value.shape}"
    return f"a {type(value).__name__}"


def sum_in_chunks(problem, rows: PyTree, weights: Float[Array, " b"], part: Callable) -> PyTree:
    """Return the sum of `part(rows, weights)` over chunks of at most `problem.rows_at_once` of b rows of one client.

    Args:
        problem: The problem.
        rows: A batch of b rows: arrays with the first axis b.
        weights: Weight of each row [b].
        part: Function of rows and weights.
    """
    count, at_once = weights.size, problem.rows_at_once
    if count <= at_once:
        return part(rows, weights)
    steps = -(-count // at_once)
    # Where rows mix the result depends on the chunks, which must not depend on the padding of a client's rows.
    size = at_once if problem.mixes_rows else -(-count // steps)

    def step(k, sums):
        index = k * size + jnp.arange(size)
        inside, index = index < count, jnp.minimum(index, count - 1)
        return jax.tree.map(jnp.add, sums, part(take(rows, index), jnp.where(inside, weights[index], 0)))

    empty = jax.eval_shape(lambda: part(take(rows, jnp.arange(size)), weights[:size]))
    return lax.fori_loop(0, steps, step, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), empty))


def derivative(order: str, f: Callable) -> Callable:
    """Return the oracle `order` of f, along what varies of a `Point`.

    It is a function of x, and for "hvp" of v too: "value", "loss" and "accuracy" are f(x), "value_and_grad" has the gradient too,
    "hvp" is the Hessian at x times v, "hessian" that Hessian [d, d], and "training" is "value_and_grad" of an f that returns
    statistics beside its value.

    Args:
        order: "value", "loss", "accuracy", "value_and_grad", "hvp", "hessian" or "training".
        f: The function.
    """
    if order in ("value", "loss", "accuracy"):
        return f

    def along(x, *v):
        if isinstance(x, Point):
            return of_plain(lambda varied: f(replace(x, varied=varied)), x.varied, *v)
        return of_plain(f, x, *v)

    def of_plain(f, x, *v):
        if order == "hvp":
            return jax.jvp(jax.grad(f), (x,), v)[1]
        if order == "hessian":
            flat, unravel = ravel_pytree(x)
            return jax.jacfwd(lambda flat: ravel_pytree(jax.grad(f)(unravel(flat)))[0])(flat)
        return jax.value_and_grad(f, has_aux=order == "training")(x)

    return along
