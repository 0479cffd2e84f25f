"""Near-equal blocks of rows, in some order."""

from typing import Literal

import numpy as np

from turnout.core.records import Count, Index, config
from turnout.data.dataset import Dataset
from turnout.data.splits.split import Split, enough_rows


@config
class SortedSplit:
    """Rows in the order of their labels, cut into equal blocks: the most heterogeneous labels."""

    clients: Count
    kind: Literal["sorted"] = "sorted"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        return _equal(self.kind, dataset, self.clients, np.argsort(dataset.labels, kind="stable"))


@config
class ContiguousSplit:
    """Rows in the order of the file, cut into equal blocks.

    What rows / clients leaves over goes one row each to the first clients ("spread"), or all to the last one ("last").
    """

    clients: Count
    remainder: Literal["spread", "last"] = "spread"
    kind: Literal["contiguous"] = "contiguous"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        rows = np.arange(dataset.rows)
        if self.remainder == "spread":
            return _equal(self.kind, dataset, self.clients, rows)
        enough_rows(self.kind, dataset, self.clients)
        return Split(rows, np.append(np.arange(self.clients) * (dataset.rows // self.clients), dataset.rows))


@config
class IidSplit:
    """Rows in random order, cut into equal blocks."""

    clients: Count
    seed: Index = 0
    kind: Literal["iid"] = "iid"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        return _equal(self.kind, dataset, self.clients, np.random.default_rng(self.seed).permutation(dataset.rows))


def _equal(kind: str, dataset: Dataset, clients: int, order: np.ndarray) -> Split:
    """Cut `order` into blocks whose sizes differ by at most one."""
    enough_rows(kind, dataset, clients)
    return Split.of(np.array_split(order, clients), dataset.rows)
