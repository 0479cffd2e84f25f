"""How the rows of a data set become clients."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Union

import numpy as np
from annotated_types import Ge, Le, Lt

from turnout.data.dataset import Dataset
from turnout.errors import UserError
from turnout.records import Count, Index, NonNegative, config


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers `indices` [rows used], client by client: client i has `indices[offsets[i]:offsets[i + 1]]`.

    `offsets` has n + 1 entries for n clients; `strata` [n] numbers each client's stratum from 0, or is None.
    """

    indices: np.ndarray
    offsets: np.ndarray
    strata: np.ndarray | None = None

    def __post_init__(self):
        for field in ("indices", "offsets", "strata"):
            if getattr(self, field) is not None:
                object.__setattr__(self, field, np.asarray(getattr(self, field), np.int64))
        if self.offsets.ndim != 1 or self.offsets.size < 2:
            raise UserError("a split needs at least one client: give offsets from 0 to the number of rows used")
        if self.offsets[0] != 0 or self.offsets[-1] != self.indices.size:
            raise UserError(f"a split's offsets must go from 0 to the {self.indices.size} rows used")
        if np.any(self.sizes < 1):
            empty = np.argmax(self.sizes < 1)
            raise UserError(f"client {empty} of the split has no rows: give it some, or leave it out")
        if self.indices.min() < 0:
            raise UserError(f"a split's row numbers count from 0, but one is {self.indices.min()}")
        if np.unique(self.indices).size < self.indices.size:
            values, counts = np.unique(self.indices, return_counts=True)
            row = values[np.argmax(counts > 1)]
            raise UserError(f"row {row} appears twice in the split: give each row to one client")
        if self.strata is not None and self.strata.shape != (self.clients,):
            raise UserError(f"a split of {self.clients} clients needs as many strata, but got {self.strata.size}")

    @classmethod
    def of(cls, parts: Sequence, rows: int, strata=None) -> "Split":
        """Build a split of a data set with `rows` rows from each client's row numbers."""
        parts = [np.asarray(part, np.int64) for part in parts]
        indices = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        if indices.size and indices.max() >= rows:
            raise UserError(f"a split of {rows} rows names row {indices.max()}, but rows go from 0 to {rows - 1}")
        return cls(indices, _offsets([part.size for part in parts]), strata)

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return self.offsets.size - 1

    @property
    def sizes(self) -> np.ndarray:
        """How many rows each client has [n]."""
        return np.diff(self.offsets)

    def rows(self, client: int) -> np.ndarray:
        """Return the row numbers of one client."""
        return self.indices[self.offsets[client] : self.offsets[client + 1]]


@config
class KMeansSplit:
    """K-means clusters of the rows are strata, each shuffled and cut into `clients_per_cluster` near-equal clients."""

    clusters: Count
    clients_per_cluster: Count
    seed: Annotated[int, Ge(0), Lt(2**32)] = 0
    kind: Literal["kmeans"] = "kmeans"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`, whose strata are the clusters."""
        _enough_rows(self.kind, dataset, self.clusters * self.clients_per_cluster)
        cluster = _kmeans(dataset, self.clusters, self.seed)
        generator = np.random.default_rng(self.seed)
        parts = []
        for number in range(self.clusters):
            rows = generator.permutation(np.flatnonzero(cluster == number))
            if rows.size < self.clients_per_cluster:
                raise UserError(
                    f"split 'kmeans': cluster {number} of {dataset.name} has {rows.size} rows, too few for "
                    f"{self.clients_per_cluster} clients: take fewer clusters or fewer clients_per_cluster"
                )
            parts += np.array_split(rows, self.clients_per_cluster)
        strata = np.repeat(np.arange(self.clusters), self.clients_per_cluster)
        return Split.of(parts, dataset.rows, strata)


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
        _enough_rows(self.kind, dataset, self.clients)
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


@config
class DirichletSplit:
    """Each label's rows are dealt to the clients in shares drawn from Dirichlet(concentration, ..., concentration).

    A small concentration gives clients few labels and unequal sizes; a large one gives all the same. The shares
    are drawn again, at most `TRIES` times, until every client has a row.
    """

    clients: Count
    concentration: Annotated[float, Ge(1e-6), Le(1e9)]
    seed: Index = 0
    kind: Literal["dirichlet"] = "dirichlet"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        _enough_rows(self.kind, dataset, self.clients)
        labels, totals = np.unique(dataset.labels, return_counts=True)
        generator = np.random.default_rng(self.seed)
        for _ in range(TRIES):
            shares = generator.dirichlet(np.full(self.clients, self.concentration), size=labels.size)
            cuts = np.rint(np.cumsum(shares, axis=1)[:, :-1] * totals[:, None]).astype(int)
            if _counts(cuts, totals).sum(axis=0).all():
                break
        else:
            raise UserError(
                f"split 'dirichlet': {TRIES} draws all left one of the {self.clients} clients without a row: "
                "take a larger concentration or fewer clients"
            )
        dealt = [
            np.split(generator.permutation(np.flatnonzero(dataset.labels == label)), cut)
            for label, cut in zip(labels, cuts, strict=True)
        ]
        return Split.of([np.concatenate(parts) for parts in zip(*dealt, strict=True)], dataset.rows)


@config
class TwoClassSplit:
    """Each client draws a pair of classes; each row goes to one of the clients that hold its class, all equally likely.

    Clients differ in size. The draw is repeated, at most `TRIES` times, until every class has a client and every client a row
    (FedDCD, section 8.4).
    """

    clients: Count
    seed: Index = 0
    kind: Literal["two-classes"] = "two-classes"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        _enough_rows(self.kind, dataset, self.clients)
        classes, labels = np.unique(dataset.labels, return_inverse=True)
        if classes.size < 2:
            raise UserError(f"split 'two-classes' needs two classes, but {dataset.name} has {classes.size}: take another split")
        generator = np.random.default_rng(self.seed)
        for _ in range(TRIES):
            holds = _pairs(generator, self.clients, classes.size)
            if not holds.any(axis=0).all():
                continue
            owner = _deal(generator, holds, labels)
            if np.bincount(owner, minlength=self.clients).all():
                break
        else:
            raise UserError(
                f"split 'two-classes': {TRIES} draws all left one of the {self.clients} clients without a row, or one of the "
                f"{classes.size} classes without a client: take another number of clients"
            )
        return Split(np.argsort(owner, kind="stable"), _offsets(np.bincount(owner)))


TRIES = 1000


@config
class NaturalSplit:
    """One client for each distinct id, in increasing order of the ids."""

    kind: Literal["natural"] = "natural"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        if dataset.ids is None:
            raise UserError(
                f"split 'natural' needs the client of each row, but {dataset.name} has no ids: "
                "take another split, such as 'iid' or 'dirichlet'"
            )
        order = np.argsort(dataset.ids, kind="stable")
        return Split(order, _offsets(np.unique(dataset.ids, return_counts=True)[1]))


@config
class PowerSplit:
    """Shuffled rows; client sizes proportional to rank^-exponent, and at least 1: few large, many small."""

    clients: Count
    exponent: NonNegative
    seed: Index = 0
    kind: Literal["power"] = "power"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`, the largest client first."""
        _enough_rows(self.kind, dataset, self.clients)
        sizes = _power_sizes(dataset.rows, self.clients, self.exponent)
        return Split(np.random.default_rng(self.seed).permutation(dataset.rows), _offsets(sizes))


SplitKind = Union[KMeansSplit, SortedSplit, ContiguousSplit, IidSplit, DirichletSplit, TwoClassSplit, NaturalSplit, PowerSplit]


def _offsets(sizes) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _enough_rows(kind: str, dataset: Dataset, clients: int) -> None:
    if clients > dataset.rows:
        raise UserError(f"split {kind!r}: {clients} clients cannot share the {dataset.rows} rows of {dataset.name}: take fewer")


def _equal(kind: str, dataset: Dataset, clients: int, order: np.ndarray) -> Split:
    """Cut `order` into blocks whose sizes differ by at most one."""
    _enough_rows(kind, dataset, clients)
    return Split.of(np.array_split(order, clients), dataset.rows)


def _kmeans(dataset: Dataset, clusters: int, seed: int) -> np.ndarray:
    """Return the cluster of each row."""
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Fewer distinct rows than clusters leave a cluster empty, which is reported as an error of its own.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(clusters, n_init=10, random_state=seed).fit_predict(dataset.features)


def _pairs(generator: np.random.Generator, clients: int, classes: int) -> np.ndarray:
    """Return which classes each client holds [clients, classes]: two, every pair equally likely."""
    first = generator.integers(classes, size=clients)
    second = (first + generator.integers(1, classes, size=clients)) % classes
    holds = np.zeros((clients, classes), bool)
    holds[np.arange(clients), first] = holds[np.arange(clients), second] = True
    return holds


def _deal(generator: np.random.Generator, holds: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the client of each row [rows]: one of those that hold its label, all equally likely."""
    owner = np.empty(labels.size, np.int64)
    for label, holders in enumerate(holds.T):
        mine = labels == label
        owner[mine] = generator.choice(np.flatnonzero(holders), size=np.count_nonzero(mine))
    return owner


def _counts(cuts: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return how many rows of each label each client gets [labels, clients], from where the labels' rows are cut."""
    edges = np.concatenate([np.zeros((totals.size, 1), int), cuts, totals[:, None]], axis=1)
    return np.diff(edges, axis=1)


def _power_sizes(rows: int, clients: int, exponent: float) -> np.ndarray:
    """Return sizes [clients] that sum to `rows`: 1 where rank^-exponent gives less, else by largest remainder."""
    share = np.arange(1.0, clients + 1) ** -exponent
    large = clients
    while True:
        spare = rows - (clients - large)
        ideal = share[:large] / share[:large].sum() * spare
        above = max(1, np.count_nonzero(ideal >= 1))
        if above == large:
            break
        large = above
    sizes = np.ones(clients, np.int64)
    sizes[:large] = np.floor(ideal)
    left = rows - sizes.sum()
    sizes[np.argsort(sizes[:large] - ideal, kind="stable")[:left]] += 1
    return sizes
