"""`Split`: which rows of a data set each client has."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turnout.core.errors import UserError
from turnout.data.dataset import Dataset


@dataclass(frozen=True, eq=False)
class Split:
    """Client i has the rows `indices[offsets[i]:offsets[i + 1]]` of a data set.

    Args:
        indices: The numbers of the rows used, client by client.
        offsets: Where each client's rows begin [n + 1].
        strata: The stratum of each client [n], counted from 0; None if there are none.

    Raises:
        UserError: A client has no rows, a row has two clients, lengths do not fit, or something is no whole number.

    Examples:
        >>> from turnout.data import Split
        >>> split = Split.of([[0, 3], [1, 2, 4]], rows=5)
        >>> split.clients, split.sizes.tolist()
        (2, [2, 3])
    """

    indices: np.ndarray
    offsets: np.ndarray
    strata: np.ndarray | None = None

    def __post_init__(self):
        for field in ("indices", "offsets", "strata"):
            if getattr(self, field) is not None:
                object.__setattr__(self, field, _whole(getattr(self, field), field))
        if self.offsets.ndim != 1 or self.offsets.size < 2:
            raise UserError("a split needs at least one client: give offsets from 0 to the number of rows used")
        if self.offsets[0] != 0 or self.offsets[-1] != self.indices.size:
            raise UserError(f"a split's offsets must go from 0 to the {self.indices.size} rows used")
        if np.any(self.sizes < 1):
            empty = np.argmax(self.sizes < 1)
            raise UserError(f"client {empty} of the split has no rows: give it some, or leave it out")
        if self.indices.min() < 0:
            raise UserError(f"a split's row numbers count from 0, but one is {self.indices.min()}")
        if np.unique(self.indices).size < self.indices.size:
            values, counts = np.unique(self.indices, return_counts=True)
            row = values[np.argmax(counts > 1)]
            raise UserError(f"row {row} appears twice in the split: give each row to one client")
        if self.strata is not None and self.strata.shape != (self.clients,):
            raise UserError(f"a split of {self.clients} clients needs as many strata, but got {self.strata.size}")

    @property
    def last_row(self) -> int:
        """The largest row number that a client has."""
        return int(self.indices.max())

    @classmethod
    def of(cls, parts: Sequence, rows: int, strata=None) -> "Split":
        """Build a split from the rows of each client.

        Args:
            parts: The row numbers of each client.
            rows: The number of rows of the data set.
            strata: The stratum of each client [n], or None.

        Raises:
            UserError: As for the constructor, or a row number is too large.
        """
        parts = [_whole(part, "rows") for part in parts]
        indices = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        if indices.size and indices.max() >= rows:
            raise UserError(f"a split of {rows} rows names row {indices.max()}, but rows go from 0 to {rows - 1}")
        return cls(indices, offsets_of([part.size for part in parts]), strata)

    @property
    def clients(self) -> int:
        """n, the number of clients."""
        return self.offsets.size - 1

    @property
    def sizes(self) -> np.ndarray:
        """The number of rows of each client [n]."""
        return np.diff(self.offsets)

    def rows(self, client: int) -> np.ndarray:
        """Return the row numbers of one client."""
        return self.indices[self.offsets[client] : self.offsets[client + 1]]


class AsStored(Split):
    """The clients of a data set that has their rows one after another.

    Args:
        offsets: Where each client's rows begin [n + 1].
    """

    def __init__(self, offsets: np.ndarray):
        for name, value in {"indices": slice(None), "offsets": offsets, "strata": None}.items():
            object.__setattr__(self, name, value)

    @property
    def last_row(self) -> int:
        """The largest row number that a client has."""
        return int(self.offsets[-1]) - 1


def _whole(numbers, name: str) -> np.ndarray:
    """Return whole numbers as such; `UserError` for others, and for truth values."""
    array = np.asarray(numbers)
    try:
        with np.errstate(invalid="ignore"):
            whole = array.astype(np.int64)
        if array.dtype.kind == "b" or not np.all(whole == array):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{name} of a split are whole numbers, but they are {numbers!r}") from None
    return whole


def offsets_of(sizes) -> np.ndarray:
    """Return the offsets [n + 1] of clients with these sizes [n]."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def enough_rows(kind: str, dataset: Dataset, clients: int, least: int = 1) -> None:
    """Raise `UserError` if a data set has too few rows for the clients.

    Args:
        kind: Kind of the split.
        dataset: The data set.
        clients: Number of clients.
        least: The least number of rows of each.
    """
    if clients * least > dataset.rows:
        of_each = f" at {least} each" if least > 1 else ""
        raise UserError(
            f"split {kind!r}: {clients} clients cannot share the {dataset.rows} rows of {dataset.name}{of_each}: take fewer"
        )
