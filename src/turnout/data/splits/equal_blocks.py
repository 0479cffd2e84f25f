"""Splits into clients of nearly equal size: consecutive blocks of rows in some order."""

from typing import Literal

import numpy as np

from turnout.core.records import Count, Index, Share, config
from turnout.data.dataset import Dataset
from turnout.data.splits.split import Split, enough_rows


@config
class SortedSplit:
    """Rows sorted by label, in blocks of nearly equal size: the most heterogeneous labels.

    With a `share` below 1, the other rows change places with each other at random, as in the experiments of SCAFFOLD (Karimireddy
    et al., 2020), whose similarity is 1 - share: with 0 the split is i.i.d.

    Args:
        clients: Number of clients.
        share: The share of rows that are sorted, from 0 to 1.
        seed: Seed of the rows that change places.
        kind: The name of the split in configurations.

    Examples:
        >>> from turnout.data import SortedSplit, load
        >>> SortedSplit(clients=4).split(load("iris")).sizes.tolist()
        [38, 38, 37, 37]
    """

    clients: Count
    share: Share = 1.0
    seed: Index = 0
    kind: Literal["sorted"] = "sorted"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        order, generator = np.argsort(dataset.labels, kind="stable"), np.random.default_rng(self.seed)
        moved = generator.choice(dataset.rows, round((1 - self.share) * dataset.rows), replace=False)
        order[moved] = order[generator.permutation(moved)]
        return _equal(self.kind, dataset, self.clients, order)


@config
class ShardsSplit:
    """Rows sorted by label, in blocks of nearly equal size, of which each client gets `shards` random ones.

    With 100 clients and 2 shards it is the pathological split of McMahan et al. (2017, section 3): most clients of MNIST have two
    digits.

    Args:
        clients: Number of clients.
        shards: Blocks of each client.
        seed: Seed of the draw.
        kind: The name of the split in configurations.

    Examples:
        >>> from turnout.data import ShardsSplit, load
        >>> ShardsSplit(clients=5, shards=2).split(load("iris")).sizes.tolist()
        [30, 30, 30, 30, 30]
    """

    clients: Count
    shards: Count = 2
    seed: Index = 0
    kind: Literal["shards"] = "shards"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        enough_rows(self.kind, dataset, self.clients, self.shards)
        blocks = np.array_split(np.argsort(dataset.labels, kind="stable"), self.clients * self.shards)
        order = np.random.default_rng(self.seed).permutation(len(blocks)).reshape(self.clients, self.shards)
        return Split.of([np.concatenate([blocks[k] for k in own]) for own in order], dataset.rows)


@config
class ContiguousSplit:
    """Rows in the order of the file, in blocks of nearly equal size.

    Args:
        clients: Number of clients.
        remainder: Who gets the rows beyond equal blocks: "spread" for the first clients, one row each, or "last" for the last.
        kind: The name of the split in configurations.

    Examples:
        >>> from turnout.data import ContiguousSplit, load
        >>> ContiguousSplit(clients=4, remainder="last").split(load("iris")).sizes.tolist()
        [37, 37, 37, 39]
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
    """Rows in random order, in blocks of nearly equal size.

    Args:
        clients: Number of clients.
        seed: Seed of the order.
        kind: The name of the split in configurations.

    Examples:
        >>> from turnout.data import IidSplit, load
        >>> IidSplit(clients=4).split(load("iris")).sizes.tolist()
        [38, 38, 37, 37]
    """

    clients: Count
    seed: Index = 0
    kind: Literal["iid"] = "iid"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        return _equal(self.kind, dataset, self.clients, np.random.default_rng(self.seed).permutation(dataset.rows))


def _equal(kind: str, dataset: Dataset, clients: int, order: np.ndarray) -> Split:
    """Return blocks of the rows `order` whose sizes differ by at most one."""
    enough_rows(kind, dataset, clients)
    return Split.of(np.array_split(order, clients), dataset.rows)
