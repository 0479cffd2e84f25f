"""Splits by the natural client of each row."""

from typing import Literal

import numpy as np

from turnout.core.errors import UserError
from turnout.core.records import Count, Index, Share, config
from turnout.data.dataset import Dataset
from turnout.data.splits.split import AsStored, Split


@config
class NaturalSplit:
    """One client for each distinct id of the data set, in increasing order of the ids; its strata are the hubs of the clients.

    Args:
        clients: How many of the clients to use, drawn uniformly; None for all.
        seed: Seed of the draw.
        kind: The name of the split in configurations.

    Examples:
        >>> import numpy as np
        >>> from turnout.data import Dataset, NaturalSplit
        >>> data = Dataset("mine", np.ones((5, 1)), np.zeros(5), ids=np.array(["b", "a", "b", "b", "a"]))
        >>> NaturalSplit().split(data).sizes.tolist()
        [2, 3]
    """

    clients: Count | None = None
    seed: Index = 0
    kind: Literal["natural"] = "natural"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        if dataset.own_offsets is not None and self.clients is None:
            return AsStored(dataset.own_offsets)
        parts = _by_id(self.kind, dataset)
        if self.clients is None:
            return _with_hubs(parts, dataset)
        if self.clients > len(parts):
            raise UserError(f"split 'natural': {dataset.name} has {len(parts)} clients, not {self.clients}: take fewer")
        drawn = np.random.default_rng(self.seed).choice(len(parts), self.clients, replace=False)
        return _with_hubs([parts[client] for client in np.sort(drawn)], dataset)


@config
class ThinnedSplit:
    """Natural clients of unequal size: large clients are unchanged, each other one is dropped or keeps few rows.

    The levels of imbalance of Chen et al. (Optimal client sampling for federated learning, 2020) are in `THINNING`; the numbers
    follow from their counts of clients and images.

    Args:
        dropped: The probability that a client that is not large is dropped.
        least: The number of rows from which a client is large; None takes the 93.2 % quantile of the sizes.
        kept: How many random rows the other clients keep.
        seed: Seed of the draws.
        kind: The name of the split in configurations.

    Examples:
        >>> import numpy as np
        >>> from turnout.data import Dataset, ThinnedSplit
        >>> data = Dataset("mine", np.ones((12, 1)), np.zeros(12), ids=np.repeat([0, 1, 2], [2, 4, 6]))
        >>> ThinnedSplit(dropped=0.0, least=6, kept=1).split(data).sizes.tolist()
        [1, 1, 6]
    """

    dropped: Share
    least: Count | None = None
    kept: Count = 3
    seed: Index = 0
    kind: Literal["thinned"] = "thinned"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`, in increasing order of the ids."""
        generator, parts = np.random.default_rng(self.seed), _by_id(self.kind, dataset)
        sizes = np.array([part.size for part in parts])
        large = sizes >= (np.quantile(sizes, LARGE, method="higher") if self.least is None else self.least)
        stays = large | (generator.random(sizes.size) >= self.dropped)
        if not stays.any():
            raise UserError(f"split 'thinned' left no client of {dataset.name}: take a smaller least or dropped")
        few = [part if big else generator.permutation(part)[: self.kept] for part, big in zip(parts, large, strict=True)]
        return _with_hubs([few[client] for client in np.flatnonzero(stays)], dataset)


LARGE = 0.932
"""The quantile of the sizes from which clients are large: about 230 of the 3,383 writers of FEMNIST at every level."""

THINNING = {"v1": 0.365, "v2": 0.686, "v3": 0.927}
"""`dropped` for each level: 2,231, 1,231 and 462 writers of FEMNIST remain; 10, 20 and 50 % of them have 82, 90 and 98 %."""


def _by_id(kind: str, dataset: Dataset) -> list[np.ndarray]:
    """Return the rows of each natural client, in increasing order of the ids."""
    if dataset.ids is None:
        raise UserError(
            f"split {kind!r} needs the client of each row, but {dataset.name} has no ids: "
            "take another split, such as 'iid' or 'dirichlet'"
        )
    sizes = np.unique(dataset.ids, return_counts=True)[1]
    return np.split(np.argsort(dataset.ids, kind="stable"), np.cumsum(sizes)[:-1])


def _with_hubs(parts: list[np.ndarray], dataset: Dataset) -> Split:
    """Return the split of natural clients with these rows; their strata are their hubs, in increasing order of the names."""
    if dataset.hubs is None:
        return Split.of(parts, dataset.rows)
    for part in parts:
        others = dataset.hubs[part] != dataset.hubs[part[0]]
        if others.any():
            one, other = dataset.hubs[part[0]], dataset.hubs[part[np.argmax(others)]]
            client = dataset.ids[part[0]]
            raise UserError(f"{dataset.name}: client {client} has rows of the hubs {one} and {other}: give each client one")
    strata = np.unique([dataset.hubs[part[0]] for part in parts], return_inverse=True)[1]
    return Split.of(parts, dataset.rows, strata)
