"""Clients in strata or blocks, laid out so that a draw looks up only the clients it draws, and the draw of strata."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.permutation import permute
from turnout.problems.base import Population
from turnout.samplers.base import array_of

Parts = tuple[Int[np.ndarray, " n"], Int[np.ndarray, " bounds"]]


def partition(numbers, population: Population, sampler: str, one: str = "stratum", many: str = "strata") -> Parts:
    """Return `parts` of the clients whose part has the number `numbers` [n], None meaning the strata of the split.

    Raises `UserError` unless the numbers are 0, 1, ... without a gap, one for each client. `one` and `many` name the parts.
    """
    numbers = population.strata if numbers is None else numbers
    if numbers is None:
        raise UserError(f"sampler {sampler!r} needs {many}: give them, or take a split that makes them (kind = 'kmeans')")
    numbers = array_of(numbers, sampler, many)
    if numbers.shape != (population.count,):
        raise UserError(f"sampler {sampler!r} needs {population.count} {many}, one a client, but got {numbers.size}")
    if not (np.issubdtype(numbers.dtype, np.integer) and numbers.min() >= 0):
        raise UserError(f"sampler {sampler!r} needs {many} numbered 0, 1, 2, ..., but one is {numbers.min()}")
    used = np.unique(numbers)
    gaps = np.flatnonzero(used != np.arange(used.size))
    if gaps.size:
        raise UserError(f"sampler {sampler!r}: {one} {gaps[0]} has no clients: number the {many} without a gap")
    return parts(numbers)


def parts(numbers: Int[np.ndarray, " n"]) -> Parts:
    """Return the clients in the order of their parts, `order` [n], and where each part starts there and the last one ends."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(numbers))])
    return np.argsort(numbers, kind="stable").astype(np.int32), starts.astype(np.int32)


def draw_of_strata(key, order, starts, size: int | None, population: Population) -> Cohort:
    """Draw one client of each stratum, or of `size` uniform ones; `order` and `starts` as `parts` gives them."""
    order, starts = jnp.asarray(order), jnp.asarray(starts)
    first, sizes, share = starts[:-1], jnp.diff(starts), 1.0
    if size is not None:
        which, key = jax.random.split(key)
        chosen, share = permute(which, jnp.arange(size), sizes.size), size / sizes.size
        first, sizes = first[chosen], sizes[chosen]
    picks = jax.random.randint(key, sizes.shape, 0, sizes, "int32")
    return Cohort.of(order[first + picks], share / sizes.astype(float), population, selection="arbitrary")


def needs_strata(size: int | None, strata: int) -> None:
    """Raise `UserError` where one client of each of `size` strata is wanted, and there are fewer strata."""
    if size is not None and size > strata:
        raise UserError(f"sampler 'stratified' wants clients of {size} strata, but there are {strata}: lower size")
