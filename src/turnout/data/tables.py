"""Tables in files, parquet or CSV, with columns of features, labels and clients."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from turnout.core.errors import UserError
from turnout.core.records import config
from turnout.data.arrays import ids_of, whole_ids
from turnout.data.columns import Columns, dataset_of
from turnout.data.csv_text import scan_text, typed
from turnout.data.dataset import Dataset
from turnout.data.source import Source, located

if TYPE_CHECKING:
    import polars as pl


@config
class Parquet(Source):
    """Columns of a parquet file. A single column of text is hashed to word counts (`columns.hashed`).

    Args:
        path: The file.
        features: Columns of numbers or lists of numbers; None means all but `label` and `client`.
        label: The column of labels.
        client: The column of natural clients, or None.

    Examples:
        >>> import pathlib, tempfile
        >>> import polars as pl
        >>> from turnout.data import Parquet
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "rows.parquet"
        ...     pl.DataFrame({"a": [1.0, 3.0], "b": [2.0, 4.0], "label": [0, 1]}).write_parquet(path)
        ...     data = Parquet(str(path)).load()
        >>> data.rows, data.features.shape
        (2, (2, 2))
    """

    path: str
    features: list[str] | None = None
    label: str = "label"
    client: str | None = None

    def load(self, folder=None) -> Dataset:
        """Return the data; `UserError` if the file or a column is missing or unusable."""
        import polars as pl

        return _read(self, folder, "parquet", lambda path, columns: pl.read_parquet(path, glob=False))


@config
class Csv(Source):
    r"""Columns of a CSV file with a header. A single column of text is hashed to word counts (`columns.hashed`).

    What a column holds follows from all of its rows. Clients are text, so that 007 and 7 are two; they are numbers only where
    each is written as Python writes a whole number.

    Args:
        path: The file.
        features: Columns of numbers; None means all but `label` and `client`.
        label: The column of labels.
        client: The column of natural clients, or None.
        separator: What stands between two columns.

    Examples:
        >>> import pathlib, tempfile
        >>> from turnout.data import Csv
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "rows.csv"
        ...     _ = path.write_text("a,b,label\n1,2,0\n3,4,1\n")
        ...     data = Csv(str(path)).load()
        >>> data.rows, data.features.shape
        (2, (2, 2))
    """

    path: str
    features: list[str] | None = None
    label: str = "label"
    client: str | None = None
    separator: str = ","

    def load(self, folder=None) -> Dataset:
        """Return the data; `UserError` if the file or a column is missing or unusable."""
        if len(self.separator.encode()) != 1:
            raise UserError(f"separator {self.separator!r} is not one ASCII character: give one, such as ';'")
        return _read(self, folder, "CSV", lambda path, columns: read_csv(path, columns, self.separator))


def _read(source: Parquet | Csv, folder, kind: str, read: Callable[[Path, Columns], "pl.DataFrame"]) -> Dataset:
    path, columns = located(source.path, folder), Columns(source.features, source.label, source.client)
    with unreadable_told(path, kind):
        table = read(path, columns)
    data = frame_dataset(path, table, columns)
    return data if data.ids is None or kind != "CSV" else replace(data, ids=whole_ids(data.ids))


def read_csv(path: Path, columns: Columns, separator: str = ",") -> "pl.DataFrame":
    """Return the table of a CSV file, with numbers in the columns of features and labels, and clients as text.

    Args:
        path: The file.
        columns: The columns of features, labels and clients.
        separator: What stands between two columns.
    """
    return typed(path, scan_text(path, separator).collect(), columns, separator)


@contextmanager
def unreadable_told(path: Path, kind: str) -> Iterator[None]:
    """Raise `UserError` for what goes wrong where a file of a `kind` is read inside."""
    import polars as pl

    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UserError(f"{path}: not a {kind} file ({str(error).splitlines()[0]}): give one") from None


def frame_dataset(path: Path, table: "pl.DataFrame", columns: Columns) -> Dataset:
    """Return the data set in the `columns` of a frame; messages call it `path`."""
    return dataset_of(path, table.columns, lambda name: _values(path, table[name]), columns)


def _values(path: Path, column: "pl.Series") -> np.ndarray:
    """Return a column as numbers, text, or rows of them."""
    import polars as pl

    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if not (
        column.dtype.is_numeric() or column.dtype in (pl.String, pl.Boolean) or isinstance(column.dtype, (pl.Array, pl.List))
    ):
        raise UserError(f"{path}: column {column.name!r} holds {column.dtype}, which is no number, list or text: leave it out")
    return column.to_numpy()


class LargeTable:
    """A parquet or CSV file of any size, read in frames.

    Args:
        path: The file.
        columns: The columns of features, labels and clients.

    Attributes:
        clients: The clients [n], in increasing order, as numbers where all are.
        sizes: The number of rows of each [n].

    Raises:
        UserError: The file is not such a file, or lacks the column of clients.
    """

    def __init__(self, path: Path, columns: Columns):
        import polars as pl

        self.path, self.columns, self._csv = path, columns, path.suffix == ".csv"
        with unreadable_told(path, "parquet or CSV"):
            table = self._scan()
            names, client, label = table.collect_schema().names(), columns.client, columns.label
            if client not in names:
                raise UserError(f"{path}: there is no column {client!r}: name the column of the clients")
            counts = table.group_by(client).len().sort(client).collect(engine="streaming")
            self._whole = None
            if self._csv and label in names:
                integers = pl.col(label).str.strip_chars().cast(pl.Int64, strict=False)
                self._whole = not table.select(integers.is_null().any()).collect(engine="streaming").item()
        counts = counts.filter(pl.col(client).is_not_null()) if self._csv else counts
        self._names, sizes = ids_of(counts[client].to_numpy(), path, f"column {client!r}"), counts["len"].to_numpy()
        numbers = whole_ids(self._names)
        self._order = np.argsort(numbers, kind="stable")
        self.clients, self.sizes = numbers[self._order], sizes[self._order].astype(np.int64)

    def _scan(self) -> "pl.LazyFrame":
        import polars as pl

        return scan_text(self.path) if self._csv else pl.scan_parquet(self.path, glob=False)

    def frames(self, rows: int) -> "Iterator[pl.DataFrame]":
        """Return the frames one after another, each with at most so many `rows`."""
        first = 0
        with unreadable_told(self.path, "parquet or CSV"):
            for frame in self._scan().collect_batches(chunk_size=rows, maintain_order=True):
                yield typed(self.path, frame, self.columns, first=first, whole=self._whole) if self._csv else frame
                first += len(frame)

    def owners(self, frame: "pl.DataFrame") -> np.ndarray:
        """Return the place of each row's client in `clients` [rows]."""
        ids = ids_of(frame[self.columns.client].to_numpy(), self.path, f"column {self.columns.client!r}")
        return np.argsort(self._order)[np.searchsorted(self._names, ids)]
