"""How the compiled engine stores the rows of a problem."""

from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Int

from turnout.problems.base import Problem
from turnout.problems.storage.client_rows import columns_of
from turnout.problems.storage.fetched import Fetched, fetched
from turnout.problems.storage.layout import Padded, Ragged, in_memory


def store(
    problem: Problem, mixed: bool = False, fetch: bool = True, sample: Int[np.ndarray, " e"] | None = None
) -> Padded | Ragged | Fetched:
    """Return the rows of `problem` as the compiled engine reaches them.

    Args:
        problem: The problem.
        mixed: Whether losses are computed in bfloat16.
        fetch: Whether rows that are not in memory are read when they are needed; else all are read now.
        sample: The clients on which f is evaluated, where rows are read when they are needed; None for all.
    """
    columns = columns_of(problem.rows)
    if columns is not None and fetch:
        return fetched(problem, columns, mixed, sample)
    if columns is not None:
        problem = replace(problem, rows=jax.tree.map(np.asarray, problem.rows))
    return in_memory(problem, mixed)
