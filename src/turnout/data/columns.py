"""Data sets from tables with columns for features, labels and clients."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from turnout.core.errors import UserError
from turnout.core.extras import extra
from turnout.core.kept import kept
from turnout.data.arrays import features_of, ids_of, labels_of, numbers_of
from turnout.data.dataset import Dataset
from turnout.data.files import data_name
from turnout.data.preprocessing import DEFAULTS, Preprocessing, TableOptions, fitted
from turnout.data.series import array_of, is_plain, is_texts, missing_in, series_of, without

if TYPE_CHECKING:
    from scipy.sparse import csr_array

WORDS = 4096
"""The number of features that words are hashed to."""

Read = Callable[[Any], Any]


class Columns(NamedTuple):
    """The names of columns.

    Args:
        features: The columns of features; None means all but the others.
        label: The column of labels; "" where there is none, and labels are 0.
        client: The column of clients, or None.
        hub: The column of their hubs, or None.
    """

    features: list | None = None
    label: Any = "label"
    client: Any = None
    hub: Any = None


def columns_of(source: Any) -> Columns:
    """Return the columns that a description of a table names.

    Args:
        source: The description.
    """
    return Columns(source.features, source.label, source.client, source.hub)


Refuse = Callable[[int, Any, str], UserError]


def dataset_of(
    path: Path,
    names: list,
    read: Read,
    columns: Columns,
    options: TableOptions = DEFAULTS,
    rules: Preprocessing | None = None,
    refused: Refuse | None = None,
) -> Dataset:
    """Return the data set of a table.

    Args:
        path: The table's file, for messages.
        names: The names of its columns.
        read: Returns a column by its name, an array or a series of polars.
        columns: The columns to take.
        options: How columns become features.
        rules: Fitted rules for that; None fits them on these rows, where they are needed.
        refused: Returns the error for a missing value, given its row, its column and a remedy.

    Raises:
        UserError: A column is missing, or does not hold what it should.
    """
    features, label, client, hub = chosen(path, names, columns)
    refused = refused or (
        lambda row, name, remedy: UserError(f"{path}: row {row + 1} lacks a value in column {name!r}: {remedy}")
    )
    values = {name: read(name) for name in features}
    labels = np.zeros(len(values[features[0]])) if label == "" else array_of(read(label))
    ids, hubs = (None if name is None else _ids(path, name, array_of(read(name)), refused) for name in (client, hub))
    gaps = missing_in(labels)
    if gaps.any() and options.missing != "drop":
        raise refused(int(np.argmax(gaps)), label, "say missing = 'drop' to leave its row out, or fill it in")
    texts = np.array(array_of(values[features[0]]), object) if is_texts(values) else None
    if rules is None and options.plain and not gaps.any() and (texts is not None or all(map(is_plain, values.values()))):
        matrix, named = _features(path, features, lambda name: array_of(values[name]))
        return Dataset(data_name(path), matrix, labels_of(labels, path, f"column {label!r}"), ids, named, hubs=hubs, texts=texts)
    # Slow to import.
    import polars as pl

    table = pl.DataFrame([series_of(each, path, name) for name, each in values.items()]).filter(~gaps)
    try:
        rules = fitted(table.lazy(), options, refused) if rules is None else rules
    except UserError as error:
        raise error if str(path) in str(error) else UserError(f"{path}: {error}") from None
    matrix, named, kept = rules.encoded(table, str(path))
    return Dataset(
        data_name(path),
        rules.scaled(matrix),
        labels_of(without(labels, gaps), path, f"column {label!r}")[kept],
        None if ids is None else without(ids, gaps)[kept],
        named,
        hubs=None if hubs is None else without(hubs, gaps)[kept],
        preprocessing=rules,
        table=table.filter(kept),
        options=options,
    )


def _ids(path: Path, name: Any, values: Any, refused: Refuse) -> np.ndarray:
    """Return a column of clients or hubs [rows]; `UserError` where a value is missing."""
    if (lacking := missing_in(values)).any():
        raise refused(int(np.argmax(lacking)), name, "fill it in, or leave its row out")
    return ids_of(values, path, f"column {name!r}")


def chosen(path: Path, names: list, columns: Columns) -> Columns:
    """Return the columns of a table that are taken, with the names of those of features.

    Args:
        path: The table's file, for messages.
        names: The names of its columns.
        columns: The columns to take.

    Raises:
        UserError: A column is missing, or named twice.
    """
    features, label, client, hub = columns
    named = [*([] if label == "" else [label]), *(name for name in (client, hub) if name is not None)]
    if features is None:
        features = [name for name in names if name not in named]
    for name in (*features, *named):
        if name not in names:
            there = ", ".join(sorted(map(str, names))) or "none"
            raise UserError(f"{path}: there is no column {name!r}, only {there}: name one of these")
    if len({*features}) < len(features):
        twice = next(name for name in features if features.count(name) > 1)
        raise UserError(f"{path}: the feature {twice!r} is named twice: name each once")
    if not features:
        raise UserError(
            f"{path}: there is no column beside {' and '.join(map(str, named)) or 'none'}: give the features columns of their own"
        )
    return Columns(features, label, client, hub)


def hashed(texts) -> "csr_array":
    """Return word counts of each text, hashed to `WORDS` columns, as rows of length 1 (Weinberger et al., 2009)."""
    from scipy.sparse import csr_array

    texts = list(texts)
    counts = kept("hashed", (WORDS, *texts), ("scikit-learn",), lambda: _word_counts(texts))
    return csr_array(tuple(counts), shape=(len(texts), WORDS))


def _word_counts(texts: list[str]) -> list[np.ndarray]:
    """Return values, columns and starts of the rows of `hashed`."""
    # Slow to import.
    text = extra("sklearn.feature_extraction.text", "a column of texts", "data")
    counts = text.HashingVectorizer(n_features=WORDS, alternate_sign=False).transform(texts)
    return [counts.data, counts.indices, counts.indptr]


def _features(path: Path, names: list, read: Read):
    """Return the features, and the name of each; None for those of texts and images, which have none."""
    if len(names) == 1:
        values = read(names[0])
        if len(values) and all(isinstance(value, str) for value in values):
            return hashed(values), None
        features = features_of(values, path, f"column {names[0]!r}")
        return features, None if features.ndim > 2 else _named(names[0], features)
    parts = [numbers_of(read(name), path, f"column {name!r}") for name in names]
    parts = [part.reshape(len(part), -1) for part in parts]
    named = [each for name, part in zip(names, parts, strict=True) for each in _named(name, part)]
    return np.concatenate(parts, axis=1, dtype=np.float64), tuple(named)


def _named(name, part: np.ndarray) -> tuple:
    """Return the name of each number of a column: that of the column, with a place where each row has several numbers."""
    return (name,) if part.shape[1] == 1 else tuple(f"{name}[{k}]" for k in range(part.shape[1]))
