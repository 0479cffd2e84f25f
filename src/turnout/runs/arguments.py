"""Checks of the arguments of a run that are not fields of a record."""

from collections.abc import Mapping
from typing import Any

from jax.tree_util import all_leaves

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.core.field_checks import checked
from turnout.core.seeds import Seeds
from turnout.problems.base import Precision, Problem


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
    checked("problem", problem, Problem)
    for name, part in evaluated.items():
        checked(name, part, Problem | None)


def check_seeds(seeds: Seeds, precision: Precision) -> None:
    """Raise `UserError` for a seed that the `precision` of the run cannot hold.

    Args:
        seeds: Seed of each purpose.
        precision: Precision of the run.
    """
    for name, seed in vars(seeds).items():
        if precision != "double" and seed >= 2**31:
            raise UserError(f"Seeds.{name} must be below 2^31 in {precision} precision, but it is {seed}: take a smaller seed")


def check_grid(grid: Any) -> None:
    """Raise `UserError` unless `grid` maps names to lists of values."""
    checked("grid", grid, Mapping)
    for name, values in grid.items():
        if isinstance(values, str) or not hasattr(values, "__iter__"):
            raise UserError(f"grid[{name!r}] must be a list of numbers, but it is {values!r}: write [{values}]")
