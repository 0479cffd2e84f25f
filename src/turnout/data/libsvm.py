"""Reading LIBSVM text: each line is `label index:value ...` with increasing indices from 1."""

import math
from pathlib import Path

import numpy as np

from turnout.core.errors import UserError
from turnout.data.dataset import Dataset
from turnout.data.files import UNREADABLE, data_name, open_text, unreadable

LARGEST_INDEX = 2**31 - 1

REMEDY = "a line reads 'label index:value index:value ...'"


def read_libsvm(path: str | Path, features: int | None = None) -> Dataset:
    r"""Read a LIBSVM file, plain or compressed (.xz, .bz2, .gz).

    Args:
        path: The file.
        features: d, the number of features; None takes the largest index in the file.

    Returns:
        The data set with sparse features [rows, d].

    Raises:
        UserError: The file cannot be read, or has a mistake, whose line is named.

    Examples:
        >>> import pathlib, tempfile
        >>> from turnout.data import read_libsvm
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "rows.txt"
        ...     _ = path.write_text("+1 1:0.5 3:2\n-1 2:1\n")
        ...     data = read_libsvm(path)
        >>> data.rows, data.features.shape
        (2, (2, 3))
    """
    from sklearn.datasets import load_svmlight_file

    path = Path(path)
    try:
        with open_text(path) as file:
            matrix, labels = load_svmlight_file(file, n_features=features, zero_based=False)
    except UNREADABLE as error:
        raise unreadable(path, error) from None
    except (ValueError, OverflowError) as error:
        raise _mistake(path, features, error) from None
    if not labels.size:
        raise UserError(f"{path}: the file holds no rows: give one with lines such as '+1 3:0.5 7:1'")
    if not (np.isfinite(matrix.data).all() and np.isfinite(labels).all()):
        raise _mistake(path, features, "NaN or infinite")
    return Dataset(data_name(path), matrix, labels)


def _mistake(path: Path, features: int | None, error) -> UserError:
    """Return the error about the first line with a mistake."""
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                wrong = _wrong(line.partition(b"#")[0].split(), features)
                if wrong:
                    return UserError(f"{path}, line {number}: {wrong}: {REMEDY}")
    except UNREADABLE as broken:
        return unreadable(path, broken)
    return UserError(f"{path}: not LIBSVM text ({error}): {REMEDY}")


def _wrong(words: list[bytes], features: int | None) -> str | None:
    """Return what is wrong with the words of one line; None if nothing is."""
    if not words:
        return None
    label, entries = words[0], words[1:]
    if _number(label) is None:
        return f"the label {_shown(label)} is not a finite number"
    if entries and entries[0].startswith(b"qid:"):
        entries = entries[1:]
    previous = 0
    for entry in entries:
        index, colon, value = entry.partition(b":")
        if not colon:
            return f"{_shown(entry)} is not index:value"
        try:
            position = int(index)
        except ValueError:
            return f"the index in {_shown(entry)} is not a whole number"
        if position < 1:
            return f"the index in {_shown(entry)} is less than 1"
        if position > (features or LARGEST_INDEX):
            return f"the index in {_shown(entry)} is more than {features or LARGEST_INDEX}"
        if position <= previous:
            return f"the index in {_shown(entry)} does not increase (the one before is {previous})"
        if _number(value) is None:
            return f"the value in {_shown(entry)} is not a finite number"
        previous = position
    return None


def _number(word: bytes) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _shown(word: bytes) -> str:
    text = word.decode("ascii", "backslashreplace")
    return repr(text if len(text) <= 40 else text[:37] + "...")
