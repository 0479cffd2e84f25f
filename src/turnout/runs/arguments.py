"""Checks of the arguments of a run that are not fields of a record."""

import inspect
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.tree_util import all_leaves

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.core.field_checks import checked
from turnout.core.seeds import Seeds
from turnout.problems.base import Precision, Problem
from turnout.problems.row_formats import NarrowRows, SparseRows
from turnout.problems.storage.client_rows import Column


def check_parts(algorithm: Any, problem: Any, **evaluated: Any) -> None:
    """Raise `UserError` unless `algorithm`, `problem` and the problems `evaluated` are such.

    Args:
        algorithm: What was given as the algorithm.
        problem: What was given as the problem.
        **evaluated: Problems to evaluate, by the name of the argument; None where not given.
    """
    checked("algorithm", algorithm, Algorithm)
    if all_leaves([algorithm]):
        raise UserError(f"{type(algorithm).__name__} is no record: write @turnout.record above the class")
    try:
        inspect.signature(algorithm.round).bind(None, None)
    except TypeError:
        name, takes = type(algorithm).__name__, inspect.signature(type(algorithm).round)
        raise UserError(f"{name}.round takes {takes}, but it gets ask and the state: define round(self, ask, server)") from None
    checked("problem", problem, Problem)
    for name, part in evaluated.items():
        checked(name, part, Problem | None)
    for part in (problem, *evaluated.values()):
        if part is not None and not part.remote:
            check_rows(part)


def check_rows(problem: Problem) -> None:
    """Raise `UserError` unless the clients of `problem` have all of its rows, and each has some.

    Args:
        problem: The problem.
    """
    offsets, name = np.asarray(problem.offsets), type(problem).__name__
    if offsets.shape != (problem.clients + 1,) or offsets[0] != 0:
        raise UserError(f"{name}.offsets are where the rows of {problem.clients} clients begin, and end: give that many from 0")
    if (np.diff(offsets) < 1).any():
        raise UserError(f"client {int(np.argmax(np.diff(offsets) < 1))} of {name} has no rows: leave it out, or correct offsets")
    for leaf in jax.tree.leaves(problem.rows, is_leaf=lambda leaf: isinstance(leaf, (Column, SparseRows, NarrowRows))):
        if np.shape(leaf)[:1] != (offsets[-1],):
            raise UserError(
                f"{name}.rows has an array of shape {np.shape(leaf)}, but offsets end at {offsets[-1]}: make them equal"
            )


def check_seeds(seeds: Seeds, precision: Precision) -> None:
    """Raise `UserError` for a seed that the `precision` of the run cannot hold.

    Args:
        seeds: Seed of each purpose.
        precision: Precision of the run.
    """
    for name, seed in vars(seeds).items():
        if precision != "double" and seed >= 2**31:
            raise UserError(f"Seeds.{name} must be below 2^31 in {precision} precision, but it is {seed}: take a smaller seed")


def checked_grid(grid: Any) -> dict[str, list]:
    """Return the values of each name of `grid`; `UserError` unless it maps names to values, at least one each."""
    lists = {}
    for name, values in checked("grid", grid, Mapping).items():
        if isinstance(values, str) or not hasattr(values, "__iter__"):
            raise UserError(f"grid[{name!r}] must be a list of numbers, but it is {values!r}: write [{values}]")
        lists[name] = [*values]
        if not lists[name]:
            raise UserError(f"grid[{name!r}] is empty: give at least one value, or leave it out")
    return lists
