"""What a model is worth to each client: rows, loss and accuracy."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.problems.base import Problem, per_row
from turnout.problems.storage.row_formats import row_count, take
from turnout.runs.setup import scope

if TYPE_CHECKING:
    import polars as pl

BLOCK = 2**14
"""Rows that are evaluated at once."""


def clients_frame(problem: Problem, precision: Any, x: PyTree) -> "pl.DataFrame":
    """Return for each client its number of rows, the loss f_i(x) and, where rows have classes, its accuracy.

    Args:
        problem: The problem.
        precision: The precision of the run.
        x: Parameters.

    Raises:
        UserError: Only the nodes have the rows.
    """
    # Slow to import.
    import polars as pl

    if problem.remote:
        raise UserError("only the clients themselves know their losses and accuracies: ask them for metrics, such as accuracy_10")
    with scope("double" if precision == "double" else "single"):
        columns = {"loss": _means(problem, problem.losses, x) + float(problem.regulariser(x))}
        if problem.classifies:
            columns["accuracy"] = _means(problem, problem.correct, x)
    return pl.DataFrame({"client": np.arange(problem.clients), "rows": problem.sizes, **columns})


def _means(problem: Problem, function: Any, x: PyTree) -> np.ndarray:
    """Return the mean of a function of rows over the rows of each client [n]."""
    rows, offsets = int(problem.offsets[-1]), np.asarray(problem.offsets)
    # Rows that mix are evaluated client by client.
    bounds = offsets if problem.mixes_rows else np.append(np.arange(0, rows, BLOCK), rows)
    value = jax.jit(lambda x, block: per_row(problem, function, x, block, jnp.ones(row_count(block))))
    values = [
        np.asarray(value(x, take(problem.rows, np.arange(first, last))), float)
        for first, last in zip(bounds[:-1], bounds[1:], strict=True)
    ]
    return np.add.reduceat(np.concatenate(values), offsets[:-1]) / problem.sizes
