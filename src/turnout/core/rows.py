"""Rows of a large array by their numbers."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Int

from turnout.core.backend import on_cpu

SPLIT = 2**19
"""Bytes of an array from which on XLA divides reading from it among the threads of a CPU."""

FEW = 16
"""The most rows that are read faster one by one than by several threads."""

SHORT = 4096
"""The most bytes of such a row: longer ones take longer to copy twice than to wait for threads."""


@custom_vmap
def rows_at(array: Array, ids: Int[Array, " m"]) -> Array:
    """Return `array[ids]` [m, ...]; a CPU reads a few short rows of a large array one by one.

    XLA takes the whole array for what is read, and divides it among threads, which takes longer than reading a few rows.

    Args:
        array: The array [n, ...].
        ids: Numbers of rows [m].
    """
    few = 0 < ids.size <= FEW and array.nbytes >= SPLIT and array.nbytes <= SHORT * array.shape[0]
    if not (few and on_cpu()):
        return array[ids]
    return jnp.stack([lax.dynamic_index_in_dim(array, ids[k], keepdims=False) for k in range(ids.size)])


@rows_at.def_vmap
def _rows_at_of_many(size, batched, array, ids):
    if batched[0]:
        return jax.vmap(lambda array, ids: array[ids], [0 if each else None for each in batched])(array, ids), True
    return rows_at(array, ids.ravel()).reshape(*ids.shape, *array.shape[1:]), True
