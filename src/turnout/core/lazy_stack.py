"""Stacked arrays [m, ...] whose m parts are stored apart, in memory or in files, and are read one at a time."""

import mmap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PIECE = 2**20
"""Numbers that are added at a time."""


class LazyStack:
    """The stack [m, ...] of m arrays; `jnp.asarray(stack)` reads it into memory.

    Args:
        parts: Arrays of one shape and dtype; None stands for zeros.
        like: An object with this shape and dtype.
    """

    def __init__(self, parts: list[np.ndarray | None], like: Any):
        self.parts, self.like = parts, like

    def __getitem__(self, places):
        if np.ndim(places):
            return jnp.stack([jnp.asarray(self[int(k)]) for k in places])
        part = self.parts[places]
        return np.zeros(self.like.shape, self.like.dtype) if part is None else part

    def __jax_array__(self) -> jax.Array:
        return jnp.stack([jnp.asarray(self[k]) for k in range(len(self.parts))])

    def sum(self, weight: np.ndarray) -> jax.Array:
        """Return sum_k weight_k part_k; a part of weight zero is not read."""
        total = np.zeros(self.like.shape, self.like.dtype)
        into = total.reshape(-1)
        for k in map(int, np.flatnonzero(weight)):
            scale, part = weight[k].astype(total.dtype), self[k].reshape(-1)
            for begin in range(0, into.size, PIECE):
                into[begin : begin + PIECE] += scale * part[begin : begin + PIECE]
            release_pages(part)
        return jnp.asarray(total)


def release_pages(array: np.ndarray) -> None:
    """Release the memory into which a memory-mapped array was read; other arrays stay as they are."""
    base = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
