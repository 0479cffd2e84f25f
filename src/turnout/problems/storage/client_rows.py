"""Rows of clients that are not in memory: `ClientRows` reads those of a cohort, and a `Column` stands for one array of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Int, PyTree

from turnout.core.host_calls import registered


class ClientRows(ABC):
    """The rows of n clients, in columns that are read together.

    Args:
        sizes: The number of rows of each client [n].
        shapes: Shape and dtype of one row of each column.
    """

    def __init__(self, sizes: Int[np.ndarray, " n"], shapes: tuple[jax.ShapeDtypeStruct, ...]):
        self.offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self.shapes = shapes
        self._readers: dict[tuple[Column, ...], RowReader] = {}

    def reader(self, columns: "tuple[Column, ...]") -> "RowReader":
        """Return what reads some columns, the same for all runs.

        Args:
            columns: Columns of these rows.
        """
        return self._readers.setdefault(columns, RowReader(columns))

    @property
    def sizes(self) -> Int[np.ndarray, " n"]:
        """The number of rows of each client [n]."""
        return np.diff(self.offsets)

    @abstractmethod
    def read(self, ids: Int[np.ndarray, " m"], into: list[np.ndarray]) -> None:
        """Write the rows of the clients `ids` to the first places of the arrays [m, s, ...], one for each column.

        Args:
            ids: Ids of the clients.
            into: Arrays of the columns' dtypes, zero where a client has less than s rows.
        """


BLOCK = 4096
"""Clients whose rows are read at once where all are read."""

AHEAD = 4
"""The most cohorts whose rows are read ahead."""


@dataclass(frozen=True, eq=False)
class Column:
    """One array [rows, ...] of the rows of all clients, which is read where it is needed.

    Args:
        source: The rows.
        number: Number of the column.
        shape: Shape of the array.
        dtype: Type of its numbers.
        recode: A function of what is stored of some rows, with one entry for each; None for what is stored.
    """

    source: ClientRows
    number: int
    shape: tuple[int, ...]
    dtype: np.dtype
    recode: Callable[[np.ndarray], np.ndarray] | None = None

    @classmethod
    def of(cls, source: ClientRows, number: int) -> "Column":
        """Return a column as it is stored.

        Args:
            source: The rows.
            number: Number of the column.
        """
        row = source.shapes[number]
        return cls(source, number, (int(source.offsets[-1]), *row.shape), np.dtype(row.dtype))

    def recoded(self, recode: Callable[[np.ndarray], np.ndarray]) -> "Column":
        """Return the column with each of its rows changed by a function of arrays of rows.

        Args:
            recode: The function.
        """
        whole = recode if self.recode is None else lambda stored, first=self.recode: recode(first(stored))
        row = recode(np.zeros((1, *self.shape[1:]), self.dtype))
        return replace(self, shape=(self.shape[0], *row.shape[1:]), dtype=row.dtype, recode=whole)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> "np.ndarray | Column":
        if isinstance(index, slice) and index == slice(None):
            return self
        rows = np.arange(len(self))[index]
        clients, inverse = np.unique(np.searchsorted(self.source.offsets, rows, side="right") - 1, return_inverse=True)
        place = rows - self.source.offsets[clients][inverse]
        return self.of_clients(clients)[inverse, place]

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        whole, sizes = np.empty(self.shape, self.dtype), self.source.sizes
        for first in range(0, sizes.size, BLOCK):
            clients = np.arange(first, min(first + BLOCK, sizes.size))
            rows = self.of_clients(clients)
            inside = np.arange(rows.shape[1]) < sizes[clients][:, None]
            whole[self.source.offsets[first] : self.source.offsets[clients[-1] + 1]] = rows[inside]
        return np.asarray(whole, dtype)

    def of_clients(self, ids: Int[np.ndarray, " m"]) -> np.ndarray:
        """Return the rows of the clients `ids` [m, s, ...], s being the size of the largest of them."""
        longest = int(self.source.sizes[ids].max(initial=0))
        stored = [np.empty((ids.size, longest, *row.shape), row.dtype) for row in self.source.shapes]
        self.source.read(ids, stored)
        return self.recoded_rows(stored[self.number])

    def recoded_rows(self, stored: np.ndarray) -> np.ndarray:
        """Return rows [m, s, ...] by what is stored of them."""
        if self.recode is None:
            return stored
        flat = self.recode(stored.reshape(-1, *stored.shape[2:]))
        return flat.reshape(*stored.shape[:2], *flat.shape[1:])


class RowReader:
    """What a compiled program reads: the columns of a problem, of the clients of a cohort.

    The rows of a cohort that is known beforehand are read by a thread of its own while the program computes.

    Args:
        columns: The columns, all of one `ClientRows`.
    """

    def __init__(self, columns: tuple[Column, ...]):
        self.columns, self.source, self.number = columns, columns[0].source, registered(self)
        self._thread = ThreadPoolExecutor(1, "turnout-rows")
        self._ahead: dict[bytes, Future] = {}
        self._like: list[tuple[tuple[int, ...], np.dtype]] = []
        self._free: list[list[np.ndarray]] = []

    def read(self, ids: Int[np.ndarray, " m"], into: list[np.ndarray]) -> None:
        """Write the rows of the clients `ids` to arrays [m, s, ...], one for each column.

        Args:
            ids: Ids of the clients.
            into: The arrays, of the dtypes of the program.
        """
        self._like = [(array.shape[1:], array.dtype) for array in into]
        ahead = self._ahead.pop(ids.tobytes(), None)
        if ahead is None:
            self._read(ids, into)
            return
        read = ahead.result()
        for array, part in zip(into, read, strict=True):
            array[...] = part
        self._free.append(read)

    def prefetch(self, ids: Int[np.ndarray, " m"]) -> None:
        """Begin to read the rows of the clients `ids`, which are likely to be wanted next.

        Args:
            ids: Ids of the clients.
        """
        if self._like:
            into = self._arrays(ids.size)
            # Cohorts that were not asked after all are forgotten.
            while len(self._ahead) >= AHEAD:
                del self._ahead[next(iter(self._ahead))]
            # The program's memory of the ids is its own again after this call.
            ids = ids.copy()
            self._ahead[ids.tobytes()] = self._thread.submit(self._read, ids, into)

    def _arrays(self, count: int) -> list[np.ndarray]:
        """Return arrays for the rows of some clients: those of a former cohort, since new memory takes time."""
        while self._free:
            arrays = self._free.pop()
            if [(array.shape, array.dtype) for array in arrays] == [((count, *shape), kind) for shape, kind in self._like]:
                return arrays
        return [np.empty((count, *shape), kind) for shape, kind in self._like]

    def _read(self, ids, into):
        stored: list[Any] = [None] * len(self.source.shapes)
        for column, array in zip(self.columns, into, strict=True):
            if column.recode is None and array.dtype == column.dtype and stored[column.number] is None:
                stored[column.number] = array
        places = into[0].shape[:2]
        for number, row in enumerate(self.source.shapes):
            if stored[number] is None:
                stored[number] = np.empty((*places, *row.shape), row.dtype)
        self.source.read(ids, stored)
        for column, array in zip(self.columns, into, strict=True):
            if stored[column.number] is not array:
                array[...] = column.recoded_rows(stored[column.number])
        return into


def columns_of(rows: PyTree) -> list[Column] | None:
    """Return the leaves of a problem's rows if they are columns that are read where they are needed; else None."""
    leaves = jax.tree.leaves(rows)
    return leaves if leaves and all(isinstance(leaf, Column) for leaf in leaves) else None
