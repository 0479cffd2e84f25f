"""Turning a data set and its split into the rows, offsets and population of a problem."""

import numpy as np

from turnout.core.errors import UserError
from turnout.problems.base import Population
from turnout.problems.storage.row_formats import compact


def federate(dataset, split, targets: np.ndarray, weights: np.ndarray | None) -> dict:
    """Return the `rows` (features, targets), `offsets` and `population` of `dataset` cut by `split`.

    `weights` lambda [n] are scaled to sum to one; None means uniform.
    """
    if weights is not None:
        weights = np.asarray(weights, float)
        if weights.shape != (split.clients,) or not np.all(np.isfinite(weights)) or not np.all(weights >= 0):
            raise UserError(f"client weights must be {split.clients} finite numbers, none negative")
        weights = weights / weights.sum()
    features = dataset.features[split.indices]
    if not isinstance(features, np.ndarray):
        features = compact(features)
    return {
        "rows": (features, targets[split.indices]),
        "offsets": split.offsets,
        "population": Population(count=split.clients, weights=weights, strata=split.strata),
    }


def federate_classes(dataset, split, weights: np.ndarray | None, classes: int | None = None) -> dict:
    """Return what `federate` does and the number of `classes`; labels are whole numbers.

    Where it is given, labels are 0, ..., `classes` - 1 already; else those that there are are numbered in increasing order.
    """
    labels = dataset.labels
    whole = labels == np.rint(labels) if labels.dtype.kind in "biuf" else np.zeros(dataset.rows, bool)
    if not whole.all():
        bad = labels[np.argmin(whole)].item()
        raise UserError(
            f"{dataset.name} has the label {bad!r}, but classes are whole numbers: number them, or take ridge regression"
        )
    if classes is None:
        found, labels = np.unique(labels, return_inverse=True)
        classes = found.size
    elif not np.isin(labels, np.arange(classes)).all():
        bad = labels[np.argmin(np.isin(labels, np.arange(classes)))].item()
        raise UserError(
            f"data set {dataset.name} has the label {bad!r}, which is none of the {classes} outputs 0, ..., {classes - 1}: give "
            "it more classes, or none, and labels are numbered as they come"
        )
    return {**federate(dataset, split, labels.astype(np.int32), weights), "classes": classes}
