"""Problems whose rows are read when their clients are drawn, made of problems in memory."""

from dataclasses import replace

import jax
import numpy as np

import turnout as t
from turnout.problems.storage.client_rows import ClientRows, Column


class ArrayRows(ClientRows):
    """Rows of clients in arrays, which are read as those of a file are; it counts the clients that it read."""

    def __init__(self, arrays: list[np.ndarray], sizes: np.ndarray):
        super().__init__(sizes, tuple(jax.ShapeDtypeStruct(array.shape[1:], array.dtype) for array in arrays))
        self.arrays, self.reads = arrays, []

    def read(self, ids, into):
        self.reads.append(ids.copy())
        for array, rows in zip(into, self.arrays, strict=True):
            for k, i in enumerate(ids):
                own = rows[self.offsets[i] : self.offsets[i + 1]]
                array[k, : len(own)], array[k, len(own) :] = own, 0


def as_fetched(problem: t.Problem) -> t.Problem:
    """Return a problem with dense rows as one whose rows are read when their clients are drawn."""
    leaves, structure = jax.tree.flatten(problem.rows)
    source = ArrayRows([np.asarray(leaf) for leaf in leaves], problem.sizes)
    return replace(problem, rows=jax.tree.unflatten(structure, [Column.of(source, k) for k in range(len(leaves))]))
