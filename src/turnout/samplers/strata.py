"""Partitions of the clients into strata or blocks, stored so that a draw reads only the clients it draws."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.permutation import permute
from turnout.problems.base import Population
from turnout.samplers.base import as_numbers

Partition = tuple[Int[np.ndarray, " n"], Int[np.ndarray, " bounds"]]


def partition(numbers, population: Population, sampler: str, singular: str = "stratum", plural: str = "strata") -> Partition:
    """Return `sort_by_part` of the clients, whose parts have the `numbers` [n]; None takes the strata of the split.

    Args:
        numbers: Number of each client's part [n], from 0, without gaps.
        population: All clients.
        sampler: Name of the sampler, for messages.
        singular: What a part is called in messages.
        plural: What parts are called in messages.

    Raises:
        UserError: If there are no such numbers.
    """
    numbers = population.strata if numbers is None else numbers
    if numbers is None:
        raise UserError(f"sampler {sampler!r} needs {plural}: give them, or take a split that makes them (kind = 'kmeans')")
    numbers = as_numbers(numbers, sampler, plural)
    if numbers.shape != (population.count,):
        raise UserError(f"sampler {sampler!r} needs {population.count} {plural}, one a client, but got {numbers.size}")
    if not (np.issubdtype(numbers.dtype, np.integer) and numbers.min() >= 0):
        raise UserError(f"sampler {sampler!r} needs {plural} numbered 0, 1, 2, ..., but one is {numbers.min()}")
    used = np.unique(numbers)
    gaps = np.flatnonzero(used != np.arange(used.size))
    if gaps.size:
        raise UserError(f"sampler {sampler!r}: {singular} {gaps[0]} has no clients: number the {plural} without a gap")
    return sort_by_part(numbers)


def sort_by_part(numbers: Int[np.ndarray, " n"]) -> Partition:
    """Return the clients sorted by part, `order` [n], and where each part starts in it, with n at the end."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(numbers))])
    return np.argsort(numbers, kind="stable").astype(np.int32), starts.astype(np.int32)


def draw_from_strata(key, order, starts, size: int | None, population: Population) -> Cohort:
    """Draw one uniform client of each stratum, or of `size` uniform strata; `order` and `starts` are of `sort_by_part`.

    Args:
        key: Random key.
        order: Clients in the order of their strata.
        starts: Place of each stratum's first client, with n at the end.
        size: Number of strata to draw from; None for all.
        population: The clients, their weights, and who is available.
    """
    order, starts = jnp.asarray(order), jnp.asarray(starts)
    first, sizes, share = starts[:-1], jnp.diff(starts), 1.0
    if size is not None:
        strata_key, key = jax.random.split(key)
        chosen, share = permute(strata_key, jnp.arange(size), sizes.size), size / sizes.size
        first, sizes = first[chosen], sizes[chosen]
    picks = jax.random.randint(key, sizes.shape, 0, sizes, "int32")
    return Cohort.of(order[first + picks], share / sizes.astype(float), population, selection="arbitrary")


def check_strata(size: int | None, strata: int) -> None:
    """Raise `UserError` if a cohort takes clients of more strata than there are.

    Args:
        size: Number of strata of a cohort; None for all.
        strata: Number of strata.
    """
    if size is not None and size > strata:
        raise UserError(f"sampler 'stratified' wants clients of {size} strata, but there are {strata}: lower size")
