"""Tables in files, parquet or CSV, with columns of features, labels and clients."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from turnout.core.errors import UserError
from turnout.core.records import config
from turnout.data.arrays import ids_of
from turnout.data.columns import Columns, dataset_of
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

        return _read(self, folder, "parquet", lambda path: pl.read_parquet(path, glob=False))


@config
class Csv(Source):
    r"""Columns of a CSV file with a header. A single column of text is hashed to word counts (`columns.hashed`).

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
        import polars as pl

        if len(self.separator.encode()) != 1:
            raise UserError(f"separator {self.separator!r} is not one ASCII character: give one, such as ';'")
        return _read(self, folder, "CSV", lambda path: pl.read_csv(path, separator=self.separator, glob=False))


def _read(source: Parquet | Csv, folder, kind: str, read: Callable[[Path], "pl.DataFrame"]) -> Dataset:
    import polars as pl

    path = located(source.path, folder)
    try:
        table = read(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UserError(f"{path}: not a {kind} file ({str(error).splitlines()[0]}): give one") from None
    return frame_dataset(path, table, Columns(source.features, source.label, source.client))


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


def batches_of(path: Path, rows: int) -> "Iterator[pl.DataFrame]":
    """Return the frames of a parquet or CSV file of any size, one after another.

    Args:
        path: The file.
        rows: The most rows of a frame.
    """
    import polars as pl

    from turnout.data.client_file import arrow

    arrow()
    import pyarrow.dataset

    try:
        for batch in pyarrow.dataset.dataset(path, format=path.suffix.removeprefix(".")).to_batches(batch_size=rows):
            frame = pl.from_arrow(batch)
            if isinstance(frame, pl.DataFrame) and len(frame):
                yield frame
    except (OSError, ValueError, pyarrow.ArrowInvalid) as error:
        raise UserError(f"{path}: not a parquet or CSV file ({str(error).splitlines()[0]}): give one") from None


def client_counts(path: Path, client: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the clients of a parquet or CSV file of any size in increasing order, and the number of rows of each [n].

    Args:
        path: The file.
        client: The column of clients.
    """
    import polars as pl

    try:
        table = (pl.scan_csv if path.suffix == ".csv" else pl.scan_parquet)(path)
        if client not in table.collect_schema().names():
            raise UserError(f"{path}: there is no column {client!r}: name the column of the clients")
        counts = table.group_by(client).len().sort(client).collect(engine="streaming")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UserError(f"{path}: not a parquet or CSV file ({str(error).splitlines()[0]}): give one") from None
    return ids_of(counts[client].to_numpy(), path, f"column {client!r}"), counts["len"].to_numpy().astype(np.int64)
