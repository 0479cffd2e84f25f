"""Data sets of clients whose rows are read when they are needed: in a client file, or made by a function."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from turnout.core.errors import UserError
from turnout.data.dataset import Dataset
from turnout.data.preprocessing import Preprocessing
from turnout.data.scaling import Scaling, unit_rows
from turnout.problems.storage.client_rows import ClientRows, Column


@dataclass(frozen=True, eq=False)
class StoredDataset(Dataset):
    """A data set whose rows have their clients already, and are read when they are needed.

    Args:
        name: The name in messages.
        features: Features or images, a column.
        labels: Labels, a column.
        columns: The name of each feature [d]; None where features go by their numbers.
        known_classes: The distinct labels in increasing order; None if they are too many, or not known.
        content: A digest of the content.
    """

    features: Column  # pyright: ignore[reportIncompatibleVariableOverride]
    labels: Column  # pyright: ignore[reportIncompatibleVariableOverride]
    content: str = ""

    def __post_init__(self):
        pass

    @classmethod
    def of(
        cls, name: str, rows: ClientRows, classes: np.ndarray | None, content: str, columns: tuple | None = None
    ) -> "StoredDataset":
        """Return the data set of the rows of clients, whose columns are features and labels.

        Args:
            name: The name in messages.
            rows: The rows.
            classes: The distinct labels in increasing order; None if they are too many, or not known.
            content: A digest of the content.
            columns: The name of each feature [d].
        """
        features, labels = Column.of(rows, 0), Column.of(rows, 1)
        return cls(name, features, labels, columns=columns, known_classes=classes, content=content)

    @property
    def own_offsets(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.features.source.offsets

    @property
    def classes(self) -> np.ndarray:
        return np.unique(np.asarray(self.labels)) if self.known_classes is None else self.known_classes

    def recoded(self, recode: Callable[[np.ndarray], np.ndarray]) -> Column:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.labels.recoded(recode)

    def named(self, names: list[str]) -> "StoredDataset":
        """Return the data set with the names of classes for their numbers.

        Args:
            names: The name of each class.
        """
        array = np.array(names)
        return replace(self, labels=self.labels.recoded(lambda numbers: array[numbers]), known_classes=array)

    def flat(self) -> "StoredDataset":
        if not self.images:
            return self
        return replace(self, features=self.features.recoded(lambda images: images.reshape(len(images), -1) / 255))

    def normalized(self, how: str, rows: np.ndarray | None = None) -> "StoredDataset":
        if how == "none":
            return self
        if how != "rows":
            raise UserError(f"{self.name}: normalize = {how!r} needs all rows at once: normalize them when the file is written")
        before = self.preprocessing or Preprocessing()
        after = replace(before, scalings=(*before.scalings, Scaling("rows")))
        return replace(self, features=self.flat().features.recoded(unit_rows), preprocessing=after)
