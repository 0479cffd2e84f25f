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


@custom_vmap
def rows_at(array: Array, ids: Int[Array, " m"]) -> Array:
    """Return `array[ids]` [m, ...]; a CPU reads a few rows of a large array one by one.

    XLA takes the whole array for what is read, and divides it among threads, which takes longer than reading a few rows.

    Args:
        array: The array [n, ...].
        ids: Numbers of rows [m].
    """
    if not on_cpu() or array.nbytes < SPLIT or not 0 < ids.size <= FEW:
        return array[ids]

    def copied(k, rows):
        return lax.dynamic_update_index_in_dim(rows, lax.dynamic_index_in_dim(array, ids[k], keepdims=False), k, 0)

    return lax.fori_loop(0, ids.size, copied, jnp.zeros((ids.size, *array.shape[1:]), array.dtype))


@rows_at.def_vmap
def _rows_at_of_many(size, batched, array, ids):
    if batched[0]:
        return jax.vmap(lambda array, ids: array[ids], [0 if each else None for each in batched])(array, ids), True
    return rows_at(array, ids.ravel()).reshape(*ids.shape, *array.shape[1:]), True
