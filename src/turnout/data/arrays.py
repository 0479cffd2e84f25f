"""Checking arrays from files and converting them to features, labels and clients of a data set."""

from pathlib import Path

import numpy as np

from turnout.core.errors import UserError
from turnout.core.narrowing import narrowed
from turnout.data.dataset import Dataset, unmasked
from turnout.data.files import data_name

SIDE = 28
"""Height and width of the images of EMNIST and FEMNIST."""

LARGEST = 2**53
"""Smaller whole numbers are exact as float64."""


def column_of(columns, name: str, path: Path, part: str = ""):
    """Return the column `name` of the mapping `columns`, which is a `part` of a file; `UserError` if it is missing.

    Args:
        columns: Columns by name.
        name: Name of the column.
        path: Path of the file.
        part: Name of the part of the file.
    """
    if name not in columns:
        where, there = f" in {part}" if part else "", ", ".join(sorted(columns)) or "nothing"
        raise UserError(f"{path}: there is no {name!r}{where}, only {there}: name one of these, or give another file")
    return columns[name]


def numbers_of(values, path: Path, what: str) -> np.ndarray:
    """Return numbers [rows, ...]; `UserError` if rows differ in shape or are not numbers.

    Args:
        values: The values.
        path: Path of the file.
        what: What the values are, for error messages.
    """
    array = _array(values, path, what)
    if array.dtype.kind not in "biuf":
        raise UserError(f"{path}: {what} holds {_named(array)}, which no model takes: give numbers")
    return array


def features_of(values, path: Path, what: str) -> np.ndarray:
    """Return the features of a `Dataset` from numbers [rows, ...].

    Arrays with three or four axes are images if all numbers are k = 0, ..., 255 or k / 255, and else flattened.

    Args:
        values: Numbers [rows, ...].
        path: Path of the file.
        what: What the values are, for error messages.
    """
    array = numbers_of(values, path, what)
    if not len(array):
        raise UserError(f"{path}: {what} has no rows: give some")
    whole = array.dtype.kind in "iu"
    if array.ndim in (3, 4) and array.size and array.min() >= 0 and array.max() <= (255 if whole else 1):
        pixels = array if whole else np.rint(array * 255)
        if whole or np.allclose(pixels / 255, array, atol=1e-6):
            return pixels.astype(np.uint8, copy=False)
    return array[:, None] if array.ndim == 1 else array.reshape(len(array), -1)


def pixels_of(values, path: Path, what: str) -> np.ndarray:
    """Return images of digits and letters as bytes [rows, 28, 28]: the nearest k to 255 times each pixel in [0, 1].

    Args:
        values: The values.
        path: Path of the file.
        what: What the values are, for error messages.
    """
    array = numbers_of(values, path, what)
    if array.shape[1:] not in ((SIDE, SIDE), (SIDE * SIDE,)):
        raise UserError(f"{path}: {what} has rows of shape {array.shape[1:]}: give images of {SIDE} x {SIDE} pixels")
    if not (array.min() >= 0 and array.max() <= 1):
        raise UserError(f"{path}: {what} has a pixel that is not from 0 to 1: give images in this range")
    return np.rint(array * 255).astype(np.uint8).reshape(-1, SIDE, SIDE)


def labels_of(values, path: Path, what: str, whole: bool = False) -> np.ndarray:
    """Return labels [rows], numbers or text; `UserError` if one is neither, no whole number where `whole`, or beyond 64 bits.

    Args:
        values: The values.
        path: Path of the file.
        what: What the values are, for error messages.
        whole: Whether labels must be whole numbers.
    """
    given = values if isinstance(values, (list, tuple)) else unmasked(values, f"{path}: {what}")
    if not whole and (isinstance(given, (list, tuple)) or given.dtype.kind in "OSU") and np.ndim(given) == 1:
        given = _names(list(given), path, what)
    array = _array(given, path, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind == "U" and array.ndim == 1 and not whole:
        return array
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        held = f"shape {array.shape}" if array.ndim != 1 else _named(array)
        raise UserError(f"{path}: {what} holds {held}, but a label is a number or a name: number the classes from 0")
    fractional = ~((array == np.rint(array)) & (np.abs(array) < LARGEST))
    if whole and fractional.any():
        raise UserError(f"{path}: {what} holds {array[fractional][0]}, but a label is a whole number: number the classes from 0")
    return narrowed(array, np.int64, f"{path}: {what}") if whole or array.dtype.kind in "iu" else array


def ids_of(values, path: Path, what: str) -> np.ndarray:
    """Return the client of each row [rows], whole numbers or text.

    Args:
        values: The values.
        path: Path of the file.
        what: What the values are, for error messages.
    """
    given = values if isinstance(values, (list, tuple)) else unmasked(values, f"{path}: {what}")
    if isinstance(given, (list, tuple)) or given.dtype.kind in "OSU":
        given = _names(list(given), path, what)
    array = _array(given, path, what)
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise UserError(
            f"{path}: {what} holds {_named(array)}, but a client is a whole number or a name: fill in what is missing"
        )
    return array


def whole_ids(ids: np.ndarray) -> np.ndarray:
    """Return clients in text as numbers where each is written as Python writes a whole number of 64 bits, else as they are."""
    if ids.dtype.kind != "U":
        return ids
    try:
        numbers = ids.astype(np.int64)
    except (ValueError, OverflowError):
        return ids
    return numbers if np.array_equal(numbers.astype(str), ids) else ids


def joined(path: Path, parts: list[tuple[np.ndarray, np.ndarray, str]]) -> Dataset:
    """Return one data set of clients' (features, labels, name).

    Args:
        path: Path of the file.
        parts: Features, labels and name of each client.
    """
    features, labels, names = zip(*parts, strict=True)
    if len({each.shape[1:] for each in features}) > 1:
        raise UserError(f"{path}: clients have rows of different lengths: make them equal")
    ids = np.repeat(names, [len(each) for each in labels])
    return Dataset(data_name(path), np.concatenate(features), np.concatenate(labels), ids)


def _array(values, path: Path, what: str) -> np.ndarray:
    """Return `values` as one array, with nested lists and arrays as further axes."""
    try:
        array = _stacked(unmasked(values, f"{path}: {what}"))
    except UserError:
        raise
    except ValueError:
        raise UserError(f"{path}: {what} has rows of different lengths: make them equal") from None
    if array.dtype.kind == "f" and isinstance(values, (list, tuple)) and values and all(type(value) is int for value in values):
        raise UserError(f"{path}: {what} holds whole numbers that no type of 64 bits has together: number them anew")
    return array


def _names(clients: list, path: Path, what: str) -> list:
    """Return clients with bytes as text; NumPy would make text of numbers beside text, and cut what ends with the code 0."""
    kinds = {next((kind for kind in (str, bytes, int, np.integer) if isinstance(each, kind)), object) for each in clients}
    if object in kinds or not kinds & {str, bytes}:
        return clients
    if len(kinds) > 1:
        raise UserError(f"{path}: {what} holds text beside numbers or bytes, such as '1' beside 1: write all in one way")
    return [_text(each, path, what) for each in clients]


def _text(name: str | bytes, path: Path, what: str) -> str:
    """Return a client's name as text."""
    try:
        text = name.decode() if isinstance(name, bytes) else name
    except UnicodeDecodeError:
        raise UserError(f"{path}: {what} holds {name!r}, which is no text in UTF-8: decode the names first") from None
    if text.endswith("\0"):
        raise UserError(f"{path}: {what} holds {name!r}, whose last letter has the code 0, which is lost in arrays: leave it out")
    return text


def _stacked(array: np.ndarray) -> np.ndarray:
    """Return an array of arrays of one shape as one array."""
    if array.dtype != object or not array.ndim or not len(array):
        return array
    return np.stack([_stacked(np.asarray(row)) for row in array])


def _named(array: np.ndarray) -> str:
    """Return what an unusable array holds, in words."""
    if array.dtype.kind in "US" or (array.dtype == object and all(isinstance(value, str) for value in array.flat)):
        return "text"
    return {"f": "fractions", "O": "missing or mixed values"}.get(array.dtype.kind, str(array.dtype))
