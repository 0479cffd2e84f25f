"""CSV files: every column is read as text, and what it holds follows from all of its rows."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from turnout.core.errors import UserError
from turnout.data.columns import Columns

if TYPE_CHECKING:
    import polars as pl

WHOLE = r"^[+-]?[0-9]+$"
"""Text that is a whole number."""

LOGICAL = {"true": 1.0, "false": 0.0}
"""Words for numbers, in any case."""


def scan_text(path: Path, separator: str = ",") -> "pl.LazyFrame":
    """Return the columns of a CSV file as text, null where nothing stands between two separators.

    Args:
        path: The file.
        separator: What stands between two columns.
    """
    import polars as pl

    return pl.scan_csv(path, separator=separator, infer_schema=False, glob=False)


def typed(
    path: Path, text: "pl.DataFrame", columns: Columns, separator: str = ",", first: int = 0, whole: bool | None = None
) -> "pl.DataFrame":
    """Return rows of a CSV file with numbers in the place of text: features, and labels, whole ones in 64 bits.

    Clients stay text. A single column of features stays text if most of its rows are no numbers.

    Args:
        path: The file, for messages.
        text: Rows of the file, as text.
        columns: The columns of features, labels and clients.
        separator: What stands between two columns.
        first: How many rows of the file come before these.
        whole: Whether the labels are whole numbers; None: if these rows' are.

    Raises:
        UserError: A row has nothing, or no number, where there is to be one.
    """
    import polars as pl

    names = text.columns if columns.features is None else columns.features
    features = [name for name in names if name in text.columns and name not in (columns.label, columns.client)]
    changed = []
    for name in [name for name in text.columns if name in (columns.label, columns.client) or name in features]:
        values = text[name]
        wrong = values.is_null() | (values == "")
        numbers = None
        if name != columns.client:
            numbers = _numbers(values)
            bad = numbers.is_null() | ~numbers.is_finite().fill_null(False)
            if name == columns.label or len(features) > 1 or 2 * int(numbers.is_null().sum()) <= len(text):
                wrong |= bad
            else:
                numbers = None
        if wrong.any():
            _refuse(path, separator, first, name, values, int(wrong.arg_true()[0]), "no finite number")
        if name == columns.label:
            integers = values.str.strip_chars().cast(pl.Int64, strict=False)
            if not integers.has_nulls() if whole is None else whole:
                numbers = integers
            elif (large := integers.is_null() & values.str.contains(WHOLE)).any():
                _refuse(path, separator, first, name, values, int(large.arg_true()[0]), "beyond 64 bits")
        changed.append(values if numbers is None else numbers.alias(name))
    return text.with_columns(changed)


def _numbers(values: "pl.Series") -> "pl.Series":
    """Return the numbers in text, null where there is none."""
    import polars as pl

    numbers = values.cast(pl.Float64, strict=False)
    if not numbers.has_nulls():
        return numbers
    stripped = values.str.strip_chars()
    logical = stripped.str.to_lowercase().replace_strict(LOGICAL, default=None, return_dtype=pl.Float64)
    return numbers.fill_null(stripped.cast(pl.Float64, strict=False)).fill_null(logical)


def _refuse(path: Path, separator: str, first: int, name: str, values: "pl.Series", row: int, what: str) -> None:
    """Raise `UserError` for what a row holds in the column `name`."""
    line, value = _line(path, separator, first + row), values[row]
    if value is None or value == "":
        raise UserError(f"{path}, line {line}: column {name!r} is empty: fill it in, or leave the row out")
    raise UserError(f"{path}, line {line}: column {name!r} holds {value[:40]!r}, which is {what}: correct it, or leave it out")


def _line(path: Path, separator: str, row: int) -> int:
    """Return the line at which the row number `row` ends, rows being counted from 0 after the header."""
    with path.open(newline="", errors="replace") as file:
        reader = csv.reader(file, delimiter=separator)
        for _, _ in zip(range(row + 2), reader, strict=False):
            pass
        return reader.line_num
