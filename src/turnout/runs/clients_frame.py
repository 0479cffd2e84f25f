"""What a model does with rows: the loss and accuracy of each client, and which classes it takes for which."""

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.compiling import program
from turnout.core.errors import UserError
from turnout.core.leaf_names import OwnLeaves, with_leaves
from turnout.problems.base import Problem
from turnout.problems.row_formats import row_count, take
from turnout.problems.row_sums import per_row
from turnout.runs.setup import scope

if TYPE_CHECKING:
    import polars as pl

BLOCK = 2**14
"""Rows that are evaluated at once."""

ACTUAL, NONE = "actual", "none of them"
"""The column of the classes that rows have, and that of rows that are taken for none."""


def clients_frame(problem: Problem, precision: Any, x: PyTree, own: OwnLeaves = None) -> "pl.DataFrame":
    """Return for each client its number of rows, the loss f_i(x) and, where rows have classes, its accuracy.

    Args:
        problem: The problem.
        precision: The precision of the run.
        x: Parameters.
        own: Returns the personal leaves of a client; None where there are none.

    Raises:
        UserError: Only the nodes have the rows.
    """
    # Slow to import.
    import polars as pl

    if problem.remote:
        raise UserError("only the clients themselves know their losses and accuracies: ask them for metrics, such as accuracy_10")
    with scope("double" if precision == "double" else "single"):
        rest = [float(problem.regulariser(_model(x, own, i))) for i in range(1 if own is None else problem.clients)]
        columns = {"loss": _means(problem, problem.losses, x, own) + np.array(rest)}
        if problem.classifies:
            columns["accuracy"] = _means(problem, problem.correct, x, own)
    return pl.DataFrame({"client": np.arange(problem.clients), "rows": problem.sizes, **columns})


def confusion_frame(problem: Problem, precision: Any, x: PyTree, own: OwnLeaves = None) -> "pl.DataFrame":
    """Return the number of rows of each class that x takes for each class.

    Args:
        problem: The problem.
        precision: The precision of the run.
        x: Parameters.
        own: Returns the personal leaves of a client; None where there are none.

    Raises:
        UserError: Only the nodes have the rows, or rows have no classes.
    """
    # Slow to import.
    import polars as pl

    if not tabulates(problem):
        raise UserError(
            f"{type(problem).__name__} has no confusion table, which needs rows, their classes and predicted(x, rows)"
        )
    with scope("double" if precision == "double" else "single"):
        predicted = _of_rows(problem, problem.predicted, x, own).astype(int)
    count, labels = len(problem.codes), np.asarray(problem.rows[1])
    actual = np.searchsorted(problem.codes, labels)
    # Column `count` is for rows that are taken for no class.
    counts = np.bincount(actual * (count + 1) + predicted % (count + 1), minlength=count * (count + 1)).reshape(count, -1)
    known = None if problem.schema is None else problem.schema.labels
    names = [str(label) for label in (problem.codes.tolist() if known is None else known)]
    first, none = (name if name not in names else f"{name} (no class)" for name in (ACTUAL, NONE))
    columns = {name: counts[:, k] for k, name in enumerate(names)}
    return pl.DataFrame({first: names, **columns, **({none: counts[:, -1]} if counts[:, -1].any() else {})})


def tabulates(problem: Problem) -> bool:
    """Return whether there is a confusion table: rows are here, have one class each, and the problem says which it predicts."""
    if problem.remote or not len(problem.codes) or type(problem).predicted is Problem.predicted:
        return False
    return np.ndim(problem.rows[1]) == 1


def _model(x: PyTree, own: OwnLeaves, i: int) -> PyTree:
    """Return the model of client i."""
    return x if own is None else with_leaves(x, own(i))


def _means(problem: Problem, function: Any, x: PyTree, own: OwnLeaves) -> np.ndarray:
    """Return the mean of a function of rows over the rows of each client [n]."""
    return np.add.reduceat(_of_rows(problem, function, x, own).astype(float), problem.offsets[:-1]) / problem.sizes


def _of_rows(problem: Problem, function: Any, x: PyTree, own: OwnLeaves) -> np.ndarray:
    """Return a function of rows, of all rows [rows]."""
    rows, offsets = int(problem.offsets[-1]), np.asarray(problem.offsets)
    # Rows that mix, and clients with models of their own, are evaluated client by client.
    apart = problem.mixes_rows or own is not None
    bounds = offsets if apart else np.append(np.arange(0, rows, BLOCK), rows)
    value = program(lambda x, block: per_row(problem, function, x, block, jnp.ones(row_count(block))))
    values = [
        np.asarray(value(_model(x, own, i), take(problem.rows, np.arange(first, last))))
        for i, (first, last) in enumerate(zip(bounds[:-1], bounds[1:], strict=True))
    ]
    return np.concatenate(values)
