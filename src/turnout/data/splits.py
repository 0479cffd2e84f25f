"""Which rows belong to which client."""

from dataclasses import dataclass
from typing import Literal, Union

import numpy as np
from jaxtyping import Int
from sklearn.cluster import KMeans

from turnout.data.dataset import Dataset
from turnout.errors import UserError
from turnout.records import Count, Index, NonNegative, Positive, config

TRIES = 100
"""Draws of a Dirichlet split before it is given up for leaving a client empty."""


@dataclass(frozen=True)
class Split:
    """Client i owns the rows `indices[offsets[i]:offsets[i + 1]]`; `strata` numbers each client's cluster, or is None."""

    indices: Int[np.ndarray, " rows"]
    offsets: Int[np.ndarray, " n+1"]
    strata: Int[np.ndarray, " n"] | None = None

    def __post_init__(self):
        empty = np.flatnonzero(self.sizes < 1)
        if empty.size:
            raise UserError(f"client {empty[0]} of the split has no rows: take fewer clients, or another split")
        if np.unique(self.indices).size != self.indices.size:
            raise UserError("a split gives each row to one client, but some rows are given twice")

    @classmethod
    def of(cls, groups: list[np.ndarray], strata=None) -> "Split":
        """Build the split whose client i owns the rows `groups[i]`."""
        offsets = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
        return cls(np.concatenate(groups).astype(np.int64), offsets.astype(np.int64), strata)

    @property
    def clients(self) -> int:
        """The number of clients n."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Int[np.ndarray, " n"]:
        """The number of rows of each client."""
        return np.diff(self.offsets)


@config
class KMeansSplit:
    """Rows clustered by k-means, each cluster cut at random into `clients_per_cluster` near-equal clients; strata = clusters."""

    clusters: Count
    clients_per_cluster: Count
    seed: Index = 0
    kind: Literal["kmeans"] = "kmeans"

    def split(self, dataset: Dataset) -> Split:
        _enough(dataset, self.clusters * self.clients_per_cluster)
        labels = KMeans(self.clusters, n_init=3, random_state=self.seed).fit_predict(dataset.features)
        generator = np.random.default_rng(self.seed)
        groups = []
        for cluster in range(self.clusters):
            rows = generator.permutation(np.flatnonzero(labels == cluster))
            if len(rows) < self.clients_per_cluster:
                raise UserError(
                    f"cluster {cluster} has {len(rows)} rows for {self.clients_per_cluster} clients: "
                    "take fewer clusters or clients_per_cluster, or another seed"
                )
            groups += np.array_split(rows, self.clients_per_cluster)
        return Split.of(groups, np.repeat(np.arange(self.clusters), self.clients_per_cluster))


@config
class SortedSplit:
    """Rows in order of their labels, cut into near-equal blocks: most clients see one class only."""

    clients: Count
    kind: Literal["sorted"] = "sorted"

    def split(self, dataset: Dataset) -> Split:
        _enough(dataset, self.clients)
        return Split.of(np.array_split(np.argsort(dataset.labels, kind="stable"), self.clients))


@config
class ContiguousSplit:
    """Rows in the order of the file, cut into near-equal blocks."""

    clients: Count
    kind: Literal["contiguous"] = "contiguous"

    def split(self, dataset: Dataset) -> Split:
        _enough(dataset, self.clients)
        return Split.of(np.array_split(np.arange(len(dataset.labels)), self.clients))


@config
class IidSplit:
    """Rows in random order, cut into near-equal blocks."""

    clients: Count
    seed: Index = 0
    kind: Literal["iid"] = "iid"

    def split(self, dataset: Dataset) -> Split:
        _enough(dataset, self.clients)
        return Split.of(np.array_split(_shuffled(dataset, self.seed), self.clients))


@config
class PowerSplit:
    """Rows in random order; client sizes proportional to rank^-exponent, from the largest to the smallest."""

    clients: Count
    exponent: NonNegative = 1.0
    seed: Index = 0
    kind: Literal["power"] = "power"

    def split(self, dataset: Dataset) -> Split:
        _enough(dataset, self.clients)
        share = np.arange(1, self.clients + 1) ** -self.exponent
        # Everyone has one row; the others follow the law, with the rounding spread over the ranks.
        rest = len(dataset.labels) - self.clients
        bounds = np.rint(np.cumsum(share) / share.sum() * rest).astype(int) + np.arange(1, self.clients + 1)
        return Split.of(np.split(_shuffled(dataset, self.seed), bounds[:-1]))


@config
class DirichletSplit:
    """For each label, the clients' shares of its rows are drawn from a Dirichlet law (Hsu et al., 2019): small
    `concentration` gives each client few labels, large gives all the same mix."""

    clients: Count
    concentration: Positive
    seed: Index = 0
    kind: Literal["dirichlet"] = "dirichlet"

    def split(self, dataset: Dataset) -> Split:
        _enough(dataset, self.clients)
        generator = np.random.default_rng(self.seed)
        classes = [np.flatnonzero(dataset.labels == label) for label in np.unique(dataset.labels)]
        for _ in range(TRIES):
            parts = [self._share(generator, rows) for rows in classes]
            groups = [np.concatenate(mine) for mine in zip(*parts, strict=True)]
            if min(map(len, groups)) > 0:
                return Split.of(groups)
        raise UserError(
            f"a client was left without rows in each of {TRIES} Dirichlet draws: raise concentration or lower clients"
        )

    def _share(self, generator: np.random.Generator, rows: np.ndarray) -> list[np.ndarray]:
        share = generator.dirichlet(np.full(self.clients, self.concentration))
        bounds = np.rint(np.cumsum(share)[:-1] * len(rows)).astype(int)
        return np.split(generator.permutation(rows), bounds)


@config
class NaturalSplit:
    """One client for each natural id that comes with the data, in increasing order of the ids."""

    kind: Literal["natural"] = "natural"

    def split(self, dataset: Dataset) -> Split:
        if dataset.ids is None:
            raise UserError(f"{dataset.name} has no natural client ids: take another split")
        order = np.argsort(dataset.ids, kind="stable")
        bounds = np.flatnonzero(np.diff(dataset.ids[order])) + 1
        return Split.of(np.split(order, bounds))


SplitKind = Union[KMeansSplit, SortedSplit, ContiguousSplit, IidSplit, PowerSplit, DirichletSplit, NaturalSplit]


def _enough(dataset: Dataset, clients: int) -> None:
    if clients > len(dataset.labels):
        raise UserError(f"{clients} clients cannot share the {len(dataset.labels)} rows of {dataset.name}: take fewer")


def _shuffled(dataset: Dataset, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(len(dataset.labels))
