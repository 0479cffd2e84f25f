"""Clients that come with the data."""

from typing import Literal

import numpy as np

from turnout.core.errors import UserError
from turnout.core.records import Count, Index, Share, config
from turnout.data.dataset import Dataset
from turnout.data.splits.split import Split


@config
class NaturalSplit:
    """One client for each distinct id, in increasing order of the ids; with `clients` only so many of them, drawn uniformly."""

    clients: Count | None = None
    seed: Index = 0
    kind: Literal["natural"] = "natural"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        parts = _by_id(self.kind, dataset)
        if self.clients is None:
            return Split.of(parts, dataset.rows)
        if self.clients > len(parts):
            raise UserError(f"split 'natural': {dataset.name} has {len(parts)} clients, not {self.clients}: take fewer")
        drawn = np.random.default_rng(self.seed).choice(len(parts), self.clients, replace=False)
        return Split.of([parts[client] for client in np.sort(drawn)], dataset.rows)


@config
class ThinnedSplit:
    """Natural clients made unequal: those with at least `least` rows stay as they are, others may go or keep few rows.

    Each of these others is left out with probability `dropped`, or else keeps `kept` random rows. `least` is the 93.2 % quantile
    of the sizes unless given; `THINNING` names three levels of imbalance (Chen et al., Optimal Client Sampling for Federated
    Learning, 2020; the numbers follow from their counts of clients and images).
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
        return Split.of([few[client] for client in np.flatnonzero(stays)], dataset.rows)


LARGE = 0.932
"""The quantile of sizes from which clients are large: about 230 of the 3,383 writers of FEMNIST are so at every level."""

THINNING = {"v1": 0.365, "v2": 0.686, "v3": 0.927}
"""`dropped` for each level: of FEMNIST's writers 2,231, 1,231 and 462 stay, and 10, 20 and 50 % of these hold 82, 90 and 98 %."""


def _by_id(kind: str, dataset: Dataset) -> list[np.ndarray]:
    """Return the rows of each natural client, in increasing order of the ids."""
    if dataset.ids is None:
        raise UserError(
            f"split {kind!r} needs the client of each row, but {dataset.name} has no ids: "
            "take another split, such as 'iid' or 'dirichlet'"
        )
    sizes = np.unique(dataset.ids, return_counts=True)[1]
    return np.split(np.argsort(dataset.ids, kind="stable"), np.cumsum(sizes)[:-1])
