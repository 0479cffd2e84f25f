"""Turning a data set and its split into the rows, offsets and population of a problem."""

import numpy as np

from turnout.core.errors import UserError
from turnout.core.schema import Schema
from turnout.problems.base import Population
from turnout.problems.row_formats import compact
from turnout.problems.storage.client_rows import Column


def check_data(dataset, split) -> None:
    """Raise `UserError` unless `dataset` is a data set and `split` a split of its rows."""
    for name, value, has, words in (
        ("dataset", dataset, "recoded", "a Dataset such as load('iris')"),
        ("split", split, "offsets", "a Split such as IidSplit(10).split(dataset)"),
    ):
        if not hasattr(value, has):
            raise UserError(f"{name} must be {words}, but it is of type {type(value).__name__}")
    if split.last_row >= dataset.rows:
        raise UserError(f"the split has row {split.last_row}, but {dataset.name} has {dataset.rows} rows: split these")


def federate(
    dataset, split, targets: np.ndarray | Column, weights: np.ndarray | None, labels: tuple | None = None, features=None
) -> dict:
    """Return the fields of a `Problem` for a data set and its split.

    Args:
        dataset: The data set.
        split: Which rows each client has.
        targets: The target of each row of the data set [rows].
        weights: Client weights lambda [n] up to their sum; None means uniform.
        labels: The label of each class; None where targets are no classes.
        features: What a model takes of each row [rows used], client by client; None for the features of the data set.

    Returns:
        `rows` = (features, targets) in the order of the clients, `offsets`, `population` and `schema`.

    Raises:
        UserError: The weights are not n finite numbers >= 0.
    """
    if not dataset.width:
        raise UserError(f"{dataset.name} has no features: give some")
    if weights is not None:
        try:
            weights = np.asarray(weights, float)
        except (TypeError, ValueError):
            raise UserError(
                f"weights of clients are numbers, but they are {weights!r}: give {split.clients} numbers, such as split.sizes"
            ) from None
        if weights.shape != (split.clients,) or not np.all(np.isfinite(weights)) or not np.all(weights >= 0):
            raise UserError(f"client weights must be {split.clients} finite numbers, none negative")
        if not weights.any():
            raise UserError("client weights are all zero: give at least one client a weight")
        weights = weights / weights.sum()
    features = dataset.features[split.indices] if features is None else features
    if not isinstance(features, np.ndarray | Column):
        features = compact(features)
    return {
        "rows": (features, targets[split.indices]),
        "offsets": split.offsets,
        "population": Population(count=split.clients, weights=weights, strata=split.strata),
        "schema": Schema(labels, dataset.columns, bool(dataset.zero_based), dataset.preprocessing),
    }


def federate_classes(dataset, split, weights: np.ndarray | None, classes: int | None = None, features=None) -> dict:
    """Return the fields of a `Classifier` for a data set and its split.

    Args:
        dataset: The data set, whose labels are names or whole numbers.
        split: Which rows each client has.
        weights: Client weights lambda [n] up to their sum; None means uniform.
        classes: Number of classes, labels being 0, ..., classes - 1; None numbers the labels in increasing order.
        features: As for `federate`.

    Raises:
        UserError: A label is not a whole number, or outside 0, ..., classes - 1.
    """
    distinct = dataset.classes
    whole = distinct == np.rint(distinct) if distinct.dtype.kind in "biuf" else np.full(distinct.size, classes is None)
    if not whole.all():
        bad = distinct[np.argmin(whole)].item()
        raise UserError(
            f"{dataset.name} has the label {bad!r}, but classes are names or whole numbers{' from 0' if classes else ''}: number "
            "them, or take ridge regression"
        )
    names = tuple(distinct.tolist()) if classes is None else tuple(range(classes))
    if classes is None:
        classes = distinct.size
        labels = dataset.recoded(lambda labels: np.searchsorted(distinct, labels).astype(np.int32))
    elif not np.isin(distinct, np.arange(classes)).all():
        bad = distinct[np.argmin(np.isin(distinct, np.arange(classes)))].item()
        raise UserError(
            f"data set {dataset.name} has the label {bad!r}, which is none of the {classes} outputs 0, ..., {classes - 1}: give "
            "it more classes, or none, and labels are numbered as they come"
        )
    else:
        labels = dataset.recoded(lambda labels: labels.astype(np.int32))
    return {**federate(dataset, split, labels, weights, names, features), "classes": classes}


def numbers_of(labels: np.ndarray) -> np.ndarray:
    """Return labels as numbers; `UserError` where they are names."""
    if labels.dtype.kind not in "biuf":
        raise UserError(f"the loss is of numbers, but a label is {labels[0].item()!r}: take a problem of classification")
    return np.asarray(labels, float)
