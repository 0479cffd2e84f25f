"""Reading data sets that the library datasets of Hugging Face saved on disk."""

from collections.abc import Callable
from typing import Any

import numpy as np

from turnout.core.errors import UserError
from turnout.core.extras import extra
from turnout.core.records import config
from turnout.data.columns import columns_of, dataset_of
from turnout.data.dataset import Dataset
from turnout.data.preprocessing import TableOptions, rules_of, with_options_explained
from turnout.data.source import Source, located


@with_options_explained
@config
class HuggingFace(TableOptions, Source):
    """Columns of a data set that `save_to_disk` wrote. A column of pictures becomes images.

    Args:
        path: The folder.
        part: Which part of a data set with several parts.
        features: Columns of features; None means all but the others.
        label: The column of labels; "" where there is none, as for texts.
        client: The column of natural clients, or None.
        hub: The column of their hubs, or None.
        **options

    Examples:
        >>> from turnout.data import HuggingFace
        >>> HuggingFace("saved", part="test").part
        'test'
    """

    path: str
    part: str = "train"
    features: list[str] | None = None
    label: str = "label"
    client: str | None = None
    hub: str | None = None

    def load(self, folder=None) -> Dataset:
        """Return the data; `UserError` if the folder, the part or a column is missing or unusable."""
        datasets = extra("datasets", "reading data sets of Hugging Face", "hugging-face")
        path = located(self.path, folder)
        try:
            table = datasets.load_from_disk(str(path))
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: not a data set that save_to_disk wrote ({error}): give its folder") from None
        if isinstance(table, datasets.DatasetDict):
            if self.part not in table:
                raise UserError(f"{path}: there is no part {self.part!r}, only {', '.join(table) or 'none'}: name one of these")
            table = table[self.part]
        return dataset_of(path, table.column_names, column_of(table), columns_of(self), self, rules_of(self, folder))


def column_of(table: Any) -> Callable[[str], Any]:
    """Return a function that returns a column of a data set by its name, with None for missing values; labels by their names.

    Args:
        table: The data set.
    """

    def read(name: str) -> Any:
        if table.data.column(name).null_count and table.features[name].__class__.__name__ == "Value":
            return list(table.with_format(None)[name])
        values, names = table.with_format("numpy")[name][:], getattr(table.features[name], "names", None)
        if names is None or names == [*map(str, range(len(names)))] or not len(values):
            return values
        if min(values) < 0:
            row = int(np.argmin(values)) + 1
            raise UserError(f"row {row} has the label {min(values)} in column {name!r}, which stands for none: leave the row out")
        return np.asarray(names)[values]

    return read
