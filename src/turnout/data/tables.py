"""Tables in files, parquet or CSV, with columns of features, labels and clients."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from turnout.core.errors import UserError
from turnout.core.records import config
from turnout.data.arrays import ids_of, whole_ids
from turnout.data.columns import Columns, chosen, columns_of, dataset_of
from turnout.data.csv_text import CsvText, Dialect
from turnout.data.dataset import Dataset
from turnout.data.preprocessing import DEFAULTS, Preprocessing, TableOptions, fitted, rules_of, with_options_explained
from turnout.data.source import Source, located

if TYPE_CHECKING:
    import polars as pl


@with_options_explained
@config
class Parquet(TableOptions, Source):
    """Columns of a parquet file. A single column of text is hashed to word counts (`columns.hashed`).

    Args:
        path: The file.
        features: Columns of numbers, lists of numbers, categories or dates; None means all but the others.
        label: The column of labels; "" where there is none, as for texts.
        client: The column of natural clients, or None.
        hub: The column of their hubs, or None.
        **options

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
    hub: str | None = None

    def load(self, folder=None) -> Dataset:
        """Return the data; `UserError` if the file or a column is missing or unusable."""
        import polars as pl

        path = located(self.path, folder)
        with unreadable_told(path, "parquet"):
            table = pl.read_parquet(path, glob=False)
        return frame_dataset(path, table, columns_of(self), self, rules_of(self, folder))


@with_options_explained
@config
class Csv(TableOptions, Source):
    r"""Columns of a CSV file with a header. A single column of text is hashed to word counts (`columns.hashed`).

    What a column holds follows from all of its rows. Clients are text, so that 007 and 7 are two; they are numbers only where
    each is written as Python writes a whole number. NA and its like stand for missing values, but for clients.

    Args:
        path: The file.
        features: Columns of numbers, categories or dates; None means all but the others.
        label: The column of labels; "" where there is none, as for texts.
        client: The column of natural clients, or None.
        separator: What stands between two columns.
        decimal: What stands before the fraction of a number.
        thousands: What stands between groups of three digits; None for nothing.
        encoding: The encoding of the text; None for UTF-8, or UTF-16 with a byte order mark.
        hub: The column of the hubs of clients, or None.
        **options

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
    decimal: str = "."
    thousands: str | None = None
    encoding: str | None = None
    hub: str | None = None

    def load(self, folder=None) -> Dataset:
        """Return the data; `UserError` if the file or a column is missing or unusable."""
        self.dialect.check()
        rules = rules_of(self, folder)
        text = self.text(located(self.path, folder), rules)
        with unreadable_told(text.path, "CSV"):
            table = text.read()
        data = frame_dataset(text.path, table, text.columns, self, rules, text.refused)
        named = {name: getattr(data, name) for name in ("ids", "hubs")}
        return replace(data, **{name: whole_ids(texts) for name, texts in named.items() if texts is not None})

    def text(self, path: Path, rules: Preprocessing | None = None) -> CsvText:
        """Return the table as text.

        Args:
            path: Where the file is.
            rules: Fitted rules, whose categories stay as they are written: 07 and 7 are two.
        """
        known = [rule.name for rule in (rules and rules.columns) or () if rule.kind == "category"]
        with unreadable_told(path, "CSV"):
            return CsvText(path, columns_of(self), self.dialect, known or self.categories)

    @property
    def dialect(self) -> Dialect:
        """How the file writes its columns and numbers."""
        return Dialect(self.separator, self.decimal, self.thousands, self.encoding)


@contextmanager
def unreadable_told(path: Path, kind: str) -> Iterator[None]:
    """Raise `UserError` for what goes wrong where a file of a `kind` is read inside."""
    import polars as pl

    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        what = str(error).splitlines()[0]
        remedy = "give its encoding, such as 'cp1252'" if "utf" in what.lower() else "give one"
        raise UserError(f"{path}: not a {kind} file ({what}): {remedy}") from None


def frame_dataset(
    path: Path, table: "pl.DataFrame", columns: Columns, options: TableOptions = DEFAULTS, rules=None, refused=None
) -> Dataset:
    """Return the data set in the `columns` of a frame; messages call it `path`. The other arguments are those of `dataset_of`."""
    return dataset_of(path, table.columns, lambda name: table[name], columns, options, rules, refused)


class LargeTable:
    """A parquet or CSV file of any size, read in frames.

    Args:
        source: The file and its columns, of which one has the clients.

    Attributes:
        clients: The clients [n], in increasing order, as numbers where all are.
        sizes: The number of rows of each [n].
        rules: How columns become features, fitted on all rows; None where numbers without gaps are features as they are.
        classes: The labels that are no numbers, in increasing order; None where labels are numbers.

    Raises:
        UserError: The file is not such a file, or lacks the column of clients.
    """

    def __init__(self, source: Csv | Parquet):
        self.path, self.columns = Path(source.path), columns_of(source)
        if source.hub is not None:
            raise UserError(f"{source.path}: a file of clients has no hubs: name those of clients in a table of [hubs]")
        if source.label == "":
            raise UserError(f"{source.path}: a file of clients has labels: name their column")
        self._source, self.rules = source, rules_of(source, None)
        self._text = source.text(self.path, self.rules) if isinstance(source, Csv) else None
        with unreadable_told(self.path, "parquet or CSV"):
            self._count(self._scan())
            self._fit()

    def _count(self, table: "pl.LazyFrame") -> None:
        import polars as pl

        names, client = table.collect_schema().names(), self.columns.client
        if client not in names:
            raise UserError(f"{self.path}: there is no column {client!r}: name the column of the clients")
        self.columns = chosen(self.path, names, self.columns)
        counts = table.group_by(client).len().sort(client).collect(engine="streaming")
        counts = counts.filter(pl.col(client).is_not_null()) if self._text else counts
        self._names = ids_of(counts[client].to_numpy(), self.path, f"column {client!r}")
        numbers = whole_ids(self._names) if self._text else self._names
        self._order = np.argsort(numbers, kind="stable")
        self.clients, self.sizes = numbers[self._order], counts["len"].to_numpy()[self._order].astype(np.int64)

    def _fit(self) -> None:
        import polars as pl

        typed = self._scan() if self._text is None else self._text.lazily_typed()
        label, options, schema = self.columns.label, self._source, typed.collect_schema()
        if options.missing == "drop":
            raise UserError(f"{self.path}: rows cannot be dropped while a file of clients is written: fill in what is missing")
        numeric = [schema[name].is_numeric() or schema[name].is_nested() for name in self.columns.features or ()]
        if self.rules is None and not (options.plain and (all(numeric) or len(numeric) == 1)):
            self.rules = fitted(typed.select(self.columns.features or ()), options, self._refused)
        self.classes = None
        if schema[label] in (pl.String, pl.Categorical, pl.Enum):
            distinct = typed.select(pl.col(label).cast(pl.String).unique()).collect(engine="streaming").to_series()
            self.classes = np.sort(distinct.drop_nulls().to_numpy().astype(str))

    def _refused(self, row: int, name: str, remedy: str) -> UserError:
        if self._text is not None:
            return self._text.refused(row, name, remedy)
        return UserError(f"{self.path}: row {row + 1} lacks a value in column {name!r}: {remedy}")

    def _scan(self) -> "pl.LazyFrame":
        import polars as pl

        return self._text.scan() if self._text else pl.scan_parquet(self.path, glob=False)

    def frames(self, rows: int) -> "Iterator[tuple[Dataset, np.ndarray]]":
        """Return the rows one frame after another, and the place of each row's client in `clients` [rows].

        Args:
            rows: The most rows of a frame.
        """
        first = 0
        with unreadable_told(self.path, "parquet or CSV"):
            for frame in self._scan().collect_batches(chunk_size=rows, maintain_order=True):
                typed = self._text.typed(frame) if self._text else frame
                told = _shifted(self._refused, first)
                data = frame_dataset(self.path, typed, self.columns, DEFAULTS, self.rules, told)
                ids = ids_of(frame[self.columns.client].to_numpy(), self.path, f"column {self.columns.client!r}")
                yield data, np.argsort(self._order)[np.searchsorted(self._names, ids)]
                first += len(frame)


def _shifted(refused, first: int):
    return lambda row, name, remedy: refused(first + row, name, remedy)
