"""CSV files: every column is read as text, and what it holds follows from all of its rows."""

import csv
import io
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from turnout.core.errors import UserError
from turnout.data.columns import Columns

if TYPE_CHECKING:
    import polars as pl

WHOLE = r"^[+-]?[0-9]+$"
"""Text that is a whole number."""

LOGICAL = {"true": 1.0, "false": 0.0}
"""Words for numbers, in any case."""

MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""What stands for a missing value, as for pandas."""

TIMES = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")
"""How dates and times are written."""

Kind = Literal["number", "whole", "logical", "date", "text"]


class Dialect(NamedTuple):
    """How a CSV file writes its columns and numbers.

    Args:
        separator: What stands between two columns.
        decimal: What stands before the fraction of a number.
        thousands: What stands between groups of three digits; None for nothing.
        encoding: The encoding of the text; None for UTF-8, or UTF-16 with a byte order mark.
    """

    separator: str = ","
    decimal: str = "."
    thousands: str | None = None
    encoding: str | None = None

    def check(self) -> None:
        """Raise `UserError` where this is no way to write a table."""
        for name, value, example in (("separator", self.separator, ";"), ("decimal", self.decimal, ",")):
            if len(value.encode()) != 1:
                raise UserError(f"{name} {value!r} is not one ASCII character: give one, such as {example!r}")
        if self.thousands is not None and (len(self.thousands) != 1 or self.thousands == self.decimal):
            raise UserError(f"thousands {self.thousands!r} is not one character other than decimal: give one, such as '.'")
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except LookupError:
                raise UserError(f"encoding {self.encoding!r} is unknown: give one that Python has, such as 'cp1252'") from None


class CsvText:
    """A CSV file whose columns are text.

    Args:
        path: The file.
        columns: The columns of features, labels, clients and hubs.
        dialect: How it writes columns and numbers.
        categories: Columns that are text whatever they hold.

    Raises:
        UserError: Two columns have one name, or the encoding is another one.
    """

    def __init__(self, path: Path, columns: Columns, dialect: Dialect, categories: list[str] | None = None):
        self.path, self.columns, self.dialect, self.categories = path, columns, dialect, categories or []
        with path.open("rb") as file:
            marked = file.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE)
        self._frame: pl.DataFrame | None = None
        self._encoding = dialect.encoding or ("utf-16" if marked else None)
        header = next(self._lines(), ([], 0))[0]
        twice = next((name for name in header if header.count(name) > 1), None)
        if twice is not None:
            raise UserError(f"{path}, line 1: two columns are called {twice!r}: rename one")
        self.names = header

    def read(self) -> "pl.DataFrame":
        """Return the whole table with types; see `typed`."""
        self._frame = self.scan().collect()
        return self.typed(self._frame).with_columns(self._direct.values())

    def scan(self) -> "pl.LazyFrame":
        """Return the columns as text, null where nothing stands between two separators."""
        import polars as pl

        if self._frame is not None:
            return self._frame.lazy()
        source = self.path if self._encoding is None else io.BytesIO(self._text().encode())
        return pl.scan_csv(source, separator=self.dialect.separator, infer_schema=False, glob=False)

    @cached_property
    def _named(self) -> list[str]:
        """The columns of features and labels."""
        features, label, *owners = self.columns
        return [name for name in self.names if name not in owners and (features is None or name in features or name == label)]

    @cached_property
    def _direct(self) -> "dict[str, pl.Series]":
        """The columns of features that hold finite numbers alone, where all rows are in memory."""
        import polars as pl

        if self._frame is None or (self.dialect.decimal, self.dialect.thousands) != (".", None):
            return {}
        plain = [name for name in self._named if name != self.columns.label and name not in self.categories]
        numbers = self._frame.select(pl.col(plain).cast(pl.Float64, strict=False))
        return {each.name: each for each in numbers if not each.has_nulls() and each.is_finite().all()}

    @cached_property
    def kinds(self) -> "Mapping[str, Kind]":
        """What each column of features and labels holds, by all of its rows, but for those in `_direct`.

        Raises:
            UserError: A column holds numbers beside other text, or whole labels beyond 64 bits.
        """
        import polars as pl

        plain = [name for name in self._named if name not in (self.columns.label, *self.categories, *self._direct)]
        bad = self._one({name: number(pl.col(name), self.dialect).is_null().sum() for name in plain})
        self._clean = [name for name in plain if not bad[name]]
        alone = len(self._named) - (self.columns.label in self._named) == 1
        return {
            name: "number" if name in self._clean else self._kind(name, self.counts(name), alone)
            for name in self._named
            if name not in self._direct
        }

    def _one(self, expressions: "dict[str, pl.Expr]") -> dict[str, int]:
        """Return the value of each expression over all rows."""
        if not expressions:
            return {}
        table = self.scan().select(each.alias(f"{k}") for k, each in enumerate(expressions.values()))
        return dict(zip(expressions, table.collect(engine="streaming").row(0), strict=True))

    def counts(self, name: str) -> dict[str, int]:
        """Return how many values of a column are held, and how many of these are of each kind.

        Args:
            name: The column.
        """
        import polars as pl

        held = pl.col(name).filter(~self.missing(name))
        whole = held.str.strip_chars().cast(pl.Int64, strict=False)
        return self._one(
            {
                "held": held.len(),
                "number": number(held, self.dialect).count(),
                "logical": logical(held).count(),
                "date": date(held).count(),
                "whole": whole.count(),
                "large": (whole.is_null() & held.str.contains(WHOLE)).sum(),
            }
        )

    def _kind(self, name: str, counts: dict[str, int], alone: bool) -> "Kind":
        held = counts["held"]
        if name in self.categories:
            return "text"
        if held and counts["logical"] == held:
            return "logical"
        if counts["number"] + counts["logical"] == held:
            if name == self.columns.label and counts["large"]:
                self._refuse_first(name, "large")
            return "whole" if counts["whole"] == held else "number"
        if counts["date"] == held:
            return "date"
        if not counts["number"] or (alone and name != self.columns.label and 2 * counts["number"] < held):
            return "text"
        self._refuse_first(name, "number")
        raise AssertionError

    def typed(self, text: "pl.DataFrame") -> "pl.DataFrame":
        """Return rows of the file, as text, with numbers and times in the place of text, and null for what is missing.

        Args:
            text: Rows of the file.
        """
        return self._typed(text.lazy()).collect()

    def _typed(self, text: "pl.LazyFrame") -> "pl.LazyFrame":
        import polars as pl

        changed = []
        for name, kind in self.kinds.items():
            values = pl.when(~self.missing(name)).then(pl.col(name))
            if name in self._clean:
                values = number(pl.col(name), self.dialect)
            elif kind == "whole" and name == self.columns.label:
                values = values.str.strip_chars().cast(pl.Int64, strict=False)
            elif kind in ("number", "whole"):
                values = number(values, self.dialect).fill_null(logical(values))
            elif kind == "logical":
                values = logical(values).cast(pl.Boolean)
            elif kind == "date":
                values = date(values)
            changed.append(values.alias(name))
        return text.with_columns(changed)

    def missing(self, name: str) -> "pl.Expr":
        """Return where a column has no value.

        Args:
            name: The column.
        """
        import polars as pl

        return pl.col(name).is_null() | pl.col(name).str.strip_chars().is_in(MISSING)

    def lazily_typed(self) -> "pl.LazyFrame":
        """Return all rows with types; see `typed`."""
        return self._typed(self.scan())

    def refused(self, row: int, name: str, remedy: str) -> UserError:
        """Return the error for a missing value, with its line.

        Args:
            row: The number of its row, counted from 0 after the header.
            name: Its column.
            remedy: What to do.
        """
        line, value = self._value(row, name)
        what = f"holds {value!r}, which stands for a missing value" if value.strip() else "is empty"
        return UserError(f"{self.path}, line {line}: column {name!r} {what}: {remedy}")

    def _refuse_first(self, name: str, lacks: str) -> None:
        """Raise `UserError` for the first row of a column that is no number, or one that is too large."""
        import polars as pl

        text = self.scan().select(name).collect()
        whole = pl.col(name).str.strip_chars()
        bad = {
            "number": number(pl.col(name), self.dialect).is_null() & logical(pl.col(name)).is_null(),
            "large": whole.cast(pl.Int64, strict=False).is_null() & whole.str.contains(WHOLE),
        }[lacks]
        row = text.select((bad.fill_null(False) & ~self.missing(name)).arg_max()).item()
        line, value = self._value(row, name)
        what = {
            "number": "which is no finite number: correct it, or name the column in categories",
            "large": "which is beyond 64 bits: correct it, or leave it out",
        }[lacks]
        raise UserError(f"{self.path}, line {line}: column {name!r} holds {value[:40]!r}, {what}")

    def _value(self, row: int, name: str) -> tuple[int, str]:
        """Return the line at which the row number `row` ends, and what it has in a column."""
        for k, (words, line) in enumerate(self._lines()):
            if k == row + 1:
                place = self.names.index(name)
                return line, words[place] if place < len(words) else ""
        raise AssertionError

    def _lines(self):
        """Yield the words of each row with the line at which it ends."""
        with self.path.open(newline="", encoding=self._encoding or "utf-8-sig", errors="replace") as file:
            reader = csv.reader(file, delimiter=self.dialect.separator)
            for words in reader:
                yield words, reader.line_num

    def _text(self) -> str:
        try:
            return self.path.read_text(encoding=self._encoding)
        except UnicodeDecodeError as error:
            raise UserError(
                f"{self.path}: not text in {self._encoding} ({error.reason} at byte {error.start}): give its encoding, such as "
                "'cp1252'"
            ) from None


def number(text: "pl.Expr", dialect: Dialect) -> "pl.Expr":
    """Return the finite numbers in text, null where there is none.

    Args:
        text: The text.
        dialect: How numbers are written.
    """
    import polars as pl

    _, decimal, thousands, _ = dialect
    plain = text.str.strip_chars()
    if thousands is not None:
        groups = rf"^[+-]?[0-9]{{1,3}}(?:{_escaped(thousands)}[0-9]{{3}})*(?:{_escaped(decimal)}[0-9]*)?$"
        grouped = plain.str.contains(thousands, literal=True)
        plain = pl.when(~grouped | plain.str.contains(groups)).then(plain.str.replace_all(thousands, "", literal=True))
    if decimal != ".":
        plain = pl.when(~plain.str.contains(".", literal=True)).then(plain.str.replace(decimal, ".", literal=True))
    numbers = plain.cast(pl.Float64, strict=False)
    return pl.when(numbers.is_finite()).then(numbers)


def logical(text: "pl.Expr") -> "pl.Expr":
    """Return 1 for true and 0 for false, in any case; null for other text.

    Args:
        text: The text.
    """
    import polars as pl

    return text.str.strip_chars().str.to_lowercase().replace_strict(LOGICAL, default=None, return_dtype=pl.Float64)


def date(text: "pl.Expr") -> "pl.Expr":
    """Return the dates and times in text, null where there is none.

    Args:
        text: The text.
    """
    import polars as pl

    plain = text.str.strip_chars()
    return pl.coalesce(plain.str.to_datetime(form, strict=False, time_unit="us") for form in TIMES)


def _escaped(character: str) -> str:
    return f"\\{character}" if not character.isalnum() and not character.isspace() else character
