"""Data sets from what a program holds already: arrays, frames, and data sets of other libraries."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from turnout.core.errors import UserError
from turnout.data.arrays import features_of, ids_of, labels_of
from turnout.data.columns import Columns, dataset_of
from turnout.data.dataset import Dataset, is_sparse_matrix
from turnout.data.hugging_face import column_of
from turnout.data.preprocessing import DEFAULTS, Preprocessing, TableOptions
from turnout.data.tables import frame_dataset

NAME = Path("data")
"""What messages call data without a file."""

CHANNELS = (1, 3)


def is_in_hand(source: Any) -> bool:
    """Whether `source` is data, not the name or the description of data."""
    return isinstance(source, (tuple, dict)) or any(_is_a(source, *kind) for kind in (*POLARS, PANDAS, HUGGING_FACE, TORCH))


def dataset_in_hand(
    source: Any, columns: Columns, options: TableOptions = DEFAULTS, rules: Preprocessing | None = None
) -> Dataset:
    """Return `source` as a data set; `UserError` where it holds no rows of numbers with labels.

    Args:
        source: Arrays (features, labels) or (features, labels, clients), a frame of polars or pandas, a dict of columns, a data
            set of Hugging Face, or a map-style data set of PyTorch whose items are (features, label).
        columns: The columns of features, labels, clients and hubs of a frame.
        options: How the columns of a frame become features.
        rules: Fitted rules for that.
    """
    if isinstance(source, tuple):
        return _of_arrays(source)
    if any(_is_a(source, *kind) for kind in POLARS):
        return frame_dataset(NAME, source.lazy().collect(), columns, options, rules)
    if isinstance(source, dict):
        return dataset_of(NAME, [*source], lambda name: source[name], columns, options, rules)
    if _is_a(source, *PANDAS):
        return _of_pandas(source, columns, options, rules)
    if _is_a(source, *HUGGING_FACE):
        return dataset_of(NAME, source.column_names, column_of(source), columns, options, rules)
    return _of_items(source)


POLARS = (("polars", "DataFrame"), ("polars", "LazyFrame"))
PANDAS, HUGGING_FACE, TORCH = ("pandas", "DataFrame"), ("datasets", "Dataset"), ("torch.utils.data", "Dataset")


def _is_a(source: Any, module: str, name: str) -> bool:
    """Whether `source` is of a class of a library, which is imported already if it is."""
    return module in sys.modules and isinstance(source, getattr(sys.modules[module], name, ()))


def _of_arrays(arrays: tuple) -> Dataset:
    if len(arrays) not in (2, 3):
        raise UserError(f"{NAME}: {len(arrays)} arrays: give features and labels, and clients if there are any")
    features, labels, *clients = arrays
    if not is_sparse_matrix(features):
        features = features_of(features, NAME, "the first array, of features,")
    ids = [ids_of(each, NAME, "the third array, of clients,") for each in clients]
    return Dataset(str(NAME), features, labels_of(labels, NAME, "the second array, of labels,"), *ids)


def _of_pandas(frame: Any, columns: Columns, options: TableOptions, rules: Preprocessing | None) -> Dataset:
    """Return the data set of a frame of pandas, whose columns may be called by numbers: 1 and "1" are two columns."""
    names = [*frame.columns]
    if not frame.columns.is_unique:
        twice = names[frame.columns.duplicated().argmax()]
        raise UserError(f"{NAME}: two columns are called {twice!r}: rename one")

    def found(name):
        return name if name in names else next((each for each in names if str(each) == name), name)

    features, label, *owners = columns
    features = None if features is None else [found(name) for name in features]
    wanted = Columns(features, found(label), *(None if name is None else found(name) for name in owners))
    return dataset_of(NAME, names, lambda name: _pandas_column(frame[name]), wanted, options, rules)


def _pandas_column(column: Any) -> np.ndarray:
    """Return a column of pandas as an array, without time zones, and with None for the missing values of objects."""
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    values = column.to_numpy()
    if values.dtype == object and column.isna().any():
        values = values.copy()
        values[column.isna().to_numpy()] = None
    return values


def _of_items(source: Any) -> Dataset:
    try:
        items = [source[k] for k in range(len(source))]
        features, labels = zip(*((np.asarray(x), np.asarray(y)) for x, y in items), strict=True)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise UserError(f"{NAME}: not a data set of pairs (features, label) with a length ({error}): give one") from None
    values = np.stack(features) if len({each.shape for each in features}) == 1 else features
    if isinstance(values, np.ndarray) and values.ndim == 4 and values.shape[1] in CHANNELS:
        # PyTorch has the channels of images first.
        values = np.moveaxis(values, 1, -1)
        values = values[..., 0] if values.shape[-1] == 1 else values
    return Dataset(str(NAME), features_of(values, NAME, "the features"), labels_of(labels, NAME, "the labels"))
