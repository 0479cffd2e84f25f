"""Evenly spaced rows of a data set."""

from dataclasses import replace

import numpy as np

from turnout.core.records import Count, config
from turnout.data import Dataset, Source, load


@config
class SpacedRows(Source):
    """Rows of a known data set, evenly spaced over the file, so that a play takes minutes.

    Args:
        name: The data set.
        rows: The number of rows.
    """

    name: str
    rows: Count = 500

    def load(self, folder=None) -> Dataset:
        """Return the data."""
        whole = load(self.name, folder)
        kept = np.linspace(0, whole.rows - 1, self.rows).astype(int)
        return replace(whole, features=whole.features[kept], labels=whole.labels[kept])
