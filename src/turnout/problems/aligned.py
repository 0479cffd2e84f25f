"""Test and held-out problems with the classes and the features of the problem that a model is trained on."""

from dataclasses import replace

import numpy as np

from turnout.core.errors import UserError
from turnout.core.schema import Schema, order_of, refuse_further_labels
from turnout.problems.base import Problem
from turnout.problems.row_formats import NarrowRows, SparseRows, compact, plain


def aligned(part: Problem, problem: Problem, what: str) -> Problem:
    """Return `part` with its classes numbered, and its features ordered, as in `problem`, by their labels and names.

    Args:
        part: A problem that evaluates a model.
        problem: The problem that trains it.
        what: The name of the argument `part`, for messages.

    Raises:
        UserError: A label is none of `problem`, or a feature is missing or one too many.
    """
    if not (isinstance(part.schema, Schema) and isinstance(problem.schema, Schema)):
        return part
    own, wanted, name = part.schema, problem.schema, f"the {what.replace('_', ' ')} problem"
    features, labels = part.rows
    if own.columns is not None and wanted.columns is not None:
        order = order_of(own.columns, wanted.columns, name, "the problem")
        features = features if order is None else _ordered(features, order)
    if own.zero_based != wanted.zero_based:
        raise UserError(f"{name} and the problem number features from 0 and from 1: load its data with data.like(train)")
    width, trained = features.shape[1:], problem.rows[0].shape[1:]
    if width != trained:
        raise UserError(f"{name} has features of shape {width}, and the problem of {trained}: make them alike")
    changes = {}
    if own.labels is not None and wanted.labels is not None and own.labels != wanted.labels:
        refuse_further_labels(name, own.labels, wanted.labels, "the problem")
        codes, place = part.codes, {label: k for k, label in enumerate(wanted.labels)}
        coded = problem.codes[[place[label] for label in own.labels]]
        labels = _changed(labels, lambda rows: coded[np.searchsorted(codes, rows).clip(max=len(codes) - 1)])
        changes = {"classes": len(wanted.labels)} if hasattr(part, "classes") else {}
    return replace(part, rows=(features, labels), schema=wanted, **changes)


def _ordered(features, order: np.ndarray):
    if isinstance(features, (NarrowRows, SparseRows)):
        from scipy.sparse import csr_array

        return compact(csr_array(csr_array(plain(features, 0, features.shape[0]))[:, order]))
    return _changed(features, lambda rows: rows[:, order])


def _changed(rows, change):
    return change(rows) if isinstance(rows, np.ndarray) else rows.recoded(change)
