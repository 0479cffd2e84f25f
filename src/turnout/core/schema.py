"""What the numbers of rows stand for: the label of each class, and the name of each feature."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from turnout.core.errors import UserError


@dataclass(frozen=True)
class Schema:
    """What the numbers of a problem's rows stand for.

    Args:
        labels: The label of each class, in increasing order; None where labels are no classes.
        columns: The name of each feature; None where features go by their numbers.
        zero_based: Whether LIBSVM text numbers the features from 0.
        preprocessing: The rules that made the features; None if there are none.
    """

    labels: tuple | None = None
    columns: tuple | None = None
    zero_based: bool = False
    preprocessing: Any = None

    def facts(self) -> dict[str, Any]:
        """Return what is known, as JSON has it: "classes", "features" and "preprocessing"."""
        rules = None if self.preprocessing is None else json.loads(self.preprocessing.json)
        known = {"classes": self.labels, "features": self.columns, "preprocessing": rules}
        return {name: value for name, value in known.items() if value is not None}

    @property
    def digest(self) -> str:
        """A digest of labels and names; empty where there are none."""
        if self == Schema():
            return ""
        rules = None if self.preprocessing is None else self.preprocessing.digest
        return sha256(repr((self.labels, self.columns, self.zero_based, rules)).encode()).hexdigest()


OTHER_SCHEMA = "give all clients the same features, and load their data with the same known_classes, zero_based and preprocessing"
"""What to do where the schemas of two clients differ."""


def order_of(columns: tuple, wanted: tuple, name: str, wanted_by: str) -> np.ndarray | None:
    """Return where each `wanted` column is among `columns`; None where they are the same.

    Args:
        columns: The names of the columns that there are.
        wanted: The names of the columns that are wanted, in their order.
        name: The name of the data that have `columns`.
        wanted_by: The name of the data that have the `wanted` columns.

    Raises:
        UserError: A column is missing, or one too many.
    """
    if columns == wanted:
        return None
    for extra, what, whose, remedy in (
        ({*wanted} - {*columns}, "lacks", "has", "add it"),
        ({*columns} - {*wanted}, "has", "lacks", "leave it out, or name the features"),
    ):
        if extra:
            raise UserError(f"{name} {what} the column {min(map(repr, extra))}, which {wanted_by} {whose}: {remedy}")
    place = {column: k for k, column in enumerate(columns)}
    return np.array([place[column] for column in wanted])


def refuse_further_labels(name: str, labels: Iterable, known: Iterable, source: str) -> None:
    """Raise `UserError` where one of the `labels` is none of those that are known.

    Args:
        name: The name of the data that have the labels.
        labels: Distinct labels.
        known: The labels that are known.
        source: What has the known labels.
    """
    known = {*known}
    further = [label for label in labels if label not in known]
    if further:
        raise UserError(f"{name} has the label {further[0]!r}, which {source} lacks: correct it, or train with rows of it too")
