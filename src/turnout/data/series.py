"""Columns of tables: arrays, lists and series of polars, as one another."""

import datetime
import math
import numbers
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnout.core.errors import UserError
from turnout.data.dataset import unmasked

if TYPE_CHECKING:
    import polars as pl


def is_series(values: Any) -> bool:
    """Return whether values are a series of polars, which is imported already if they are."""
    return "polars" in sys.modules and isinstance(values, sys.modules["polars"].Series)


def array_of(values: Any) -> Any:
    """Return a column as an array; one that is no series as it is.

    Args:
        values: The column.
    """
    if not is_series(values):
        return values
    return (values.cast(sys.modules["polars"].String) if values.dtype.is_(str) else values).to_numpy()


def is_plain(values: Any) -> bool:
    """Return whether a column holds numbers without gaps, or rows of numbers.

    Args:
        values: The column.
    """
    if is_series(values):
        if values.dtype.is_nested():
            return True
        if not values.dtype.is_numeric() or values.has_nulls():
            return False
        return not (values.dtype.is_float() and values.is_nan().any())
    array = values if isinstance(values, np.ndarray) else None
    if array is None or np.ma.is_masked(array):
        return not any(_is_missing(each) or isinstance(each, (str, bytes, datetime.date)) for each in values)
    if array.ndim > 1 or array.dtype.kind not in "fMmO":
        return array.dtype.kind not in "USMm"
    if array.dtype.kind == "f":
        return not np.isnan(array).any()
    return array.dtype.kind == "O" and all(isinstance(each, (np.ndarray, list)) or _is_number(each) for each in array)


def is_texts(columns: dict) -> bool:
    """Return whether there is one column alone, of texts without gaps.

    Args:
        columns: Columns by name.
    """
    if len(columns) > 1:
        return False
    values = array_of(next(iter(columns.values())))
    return len(values) > 0 and all(isinstance(value, str) for value in values)


def missing_in(values: Any) -> np.ndarray:
    """Return where a column of labels or clients has no value [rows].

    Args:
        values: An array or a list.
    """
    if is_series(values):
        values = array_of(values)
    array = values if isinstance(values, np.ndarray) and values.dtype != object else None
    if array is None:
        return np.array([_is_missing(value) for value in values], bool)
    if array.dtype.kind != "f" or array.ndim != 1:
        return np.zeros(len(array), bool)
    return np.isnan(array)


def without(values: Any, gaps: np.ndarray) -> Any:
    """Return a column without the rows in which there are gaps.

    Args:
        values: An array or a list.
        gaps: Where the gaps are [rows].
    """
    if not gaps.any():
        return values
    return (
        values[~gaps]
        if isinstance(values, np.ndarray) and values.dtype != object
        else [value for value, gap in zip(values, gaps, strict=True) if not gap]
    )


def series_of(values: Any, path: Path, name: Any) -> "pl.Series":
    """Return a column as a series of polars, null where a value is missing.

    Args:
        values: An array, a list or a series.
        path: The table's file, for messages.
        name: The name of the column.

    Raises:
        UserError: It holds values of several kinds.
    """
    import polars as pl

    if is_series(values):
        return values.alias(str(name))
    array = unmasked(values, f"{path}: column {name!r}") if np.ma.is_masked(values) else values
    if isinstance(array, np.ndarray) and array.dtype.kind in "biuf" and array.ndim >= 1:
        return pl.Series(str(name), array)
    if isinstance(array, np.ndarray) and array.dtype.kind in "Mm":
        return pl.Series(str(name), array.astype(f"{array.dtype.kind}8[us]"))
    held = [None if _is_missing(value) else value for value in array]
    kinds = {_kind(value) for value in held if value is not None}
    if len(kinds) > 1 or "other" in kinds:
        what = "values of several kinds" if len(kinds) > 1 else "values of no known kind"
        raise UserError(f"{path}: column {name!r} holds {what}: write all as numbers, or all as text")
    types = {"text": pl.String, "number": pl.Float64, "logical": pl.Boolean, "date": None}
    return pl.Series(str(name), held, types.get(next(iter(kinds), "number")))


def _kind(value: Any) -> str:
    for kind, types in (("logical", (bool, np.bool_)), ("text", str), ("date", datetime.date)):
        if isinstance(value, types):
            return kind
    return "number" if _is_number(value) else "other"


def _is_number(value: Any) -> bool:
    return isinstance(value, (numbers.Real, np.generic)) and not _is_missing(value)


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or a missing value of pandas."""
    if value is None or (isinstance(value, (float, np.floating)) and math.isnan(value)):
        return True
    return type(value).__name__ in ("NAType", "NaTType")
