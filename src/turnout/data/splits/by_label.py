"""Splits by label: each client has more rows of some classes than of others."""

import heapq
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le

from turnout.core.errors import UserError, caution
from turnout.core.records import Count, Index, config
from turnout.data.dataset import Dataset
from turnout.data.splits.split import Split, enough_rows, offsets_of

TRIES = 1000
"""Draws after which a split gives up."""

Concentration = Annotated[float, Ge(1e-6), Le(1e9)]


@config
class DirichletSplit:
    """Each label's rows are divided among the clients in shares drawn from Dirichlet(concentration, ..., concentration).

    Client i gets floor(p_li n_l) or ceil(p_li n_l) of the n_l rows of label l, on average p_li n_l; each label is rounded apart.
    A small concentration gives clients few labels and unequal sizes; with a large one each row is as likely at each client.
    Clients that draw fewer than `min_rows` get the rest from those that are largest at that moment, which a warning tells.

    Args:
        clients: Number of clients.
        concentration: Parameter of the Dirichlet distribution, from 1e-6 to 1e9.
        seed: Seed of the draw.
        min_rows: The least number of rows of a client.
        alpha: Another name of the concentration.
        kind: The name of the split in configurations.

    Examples:
        >>> from turnout.data import DirichletSplit, load
        >>> DirichletSplit(clients=4, concentration=0.5).split(load("iris")).sizes.tolist()
        [40, 30, 28, 52]
    """

    clients: Count
    concentration: Concentration | None = None
    seed: Index = 0
    min_rows: Count = 1
    alpha: Concentration | None = None
    kind: Literal["dirichlet"] = "dirichlet"

    def __post_init__(self):
        if (self.concentration is None) == (self.alpha is None):
            raise UserError("split 'dirichlet': concentration and alpha are two names of one number: give one of them")
        if self.alpha is not None:
            object.__setattr__(self, "concentration", self.alpha)
            object.__setattr__(self, "alpha", None)

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        enough_rows(self.kind, dataset, self.clients, self.min_rows)
        generator, owner = np.random.default_rng(self.seed), np.empty(dataset.rows, np.int64)
        for label in np.unique(dataset.labels):
            rows = generator.permutation(np.flatnonzero(dataset.labels == label))
            shares = generator.dirichlet(np.full(self.clients, self.concentration))
            owner[rows] = np.repeat(*_rounded(generator, shares, rows.size))
        _top_up(generator, owner, self.clients, self.min_rows)
        return Split(np.argsort(owner, kind="stable"), offsets_of(np.bincount(owner, minlength=self.clients)))


def _rounded(generator: np.random.Generator, shares: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the clients in a random order and the rows of each [clients]: shares * total, rounded up or down at random."""
    order = generator.permutation(shares.size)
    edges = np.floor(np.cumsum(shares[order]) * total + generator.random()).clip(max=total).astype(int)
    edges[-1] = total
    return order, np.diff(edges, prepend=0)


def _top_up(generator: np.random.Generator, owner: np.ndarray, clients: int, least: int) -> None:
    """Give random rows of the largest clients to those with fewer than the `least`, by changing the `owner` of rows [rows]."""
    sizes = np.bincount(owner, minlength=clients)
    lacking = np.maximum(least - sizes, 0)
    if not lacking.any():
        return
    caution(
        f"split 'dirichlet': {np.count_nonzero(lacking)} of {clients} clients drew fewer than {least} row{'s' * (least > 1)} and "
        "got the rest from the largest: take a larger concentration, or fewer clients, where that matters"
    )
    largest, given = [(-size, client) for client, size in enumerate(sizes.tolist())], np.zeros(clients, np.int64)
    heapq.heapify(largest)
    for _ in range(lacking.sum()):
        size, client = largest[0]
        heapq.heapreplace(largest, (size + 1, client))
        given[client] += 1
    # The first rows of each client in an order that is random within clients.
    order, begins = np.lexsort((generator.random(owner.size), owner)), np.cumsum(sizes) - sizes
    moved = order[np.repeat(begins - np.cumsum(given) + given, given) + np.arange(given.sum())]
    owner[generator.permutation(moved)] = np.repeat(np.arange(clients), lacking)


@config
class TwoClassSplit:
    """Each client draws two classes; each row goes to a random client with its class (FedDCD, section 8.4).

    The draw is repeated, at most `TRIES` times, until every class has a client and every client a row.

    Args:
        clients: Number of clients.
        seed: Seed of the draw.
        kind: The name of the split in configurations.

    Examples:
        >>> from turnout.data import TwoClassSplit, load
        >>> TwoClassSplit(clients=6).split(load("iris")).sizes.tolist()
        [16, 30, 35, 18, 24, 27]
    """

    clients: Count
    seed: Index = 0
    kind: Literal["two-classes"] = "two-classes"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        enough_rows(self.kind, dataset, self.clients)
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
        return Split(np.argsort(owner, kind="stable"), offsets_of(np.bincount(owner)))


def _pairs(generator: np.random.Generator, clients: int, classes: int) -> np.ndarray:
    """Return which two classes each client has [clients, classes], all pairs being equally likely."""
    first = generator.integers(classes, size=clients)
    second = (first + generator.integers(1, classes, size=clients)) % classes
    holds = np.zeros((clients, classes), bool)
    holds[np.arange(clients), first] = holds[np.arange(clients), second] = True
    return holds


@config
class LabelsSplit:
    """Client i has the label i mod L and other random ones, `labels` in all; clients with a label share its rows evenly.

    L is the number of distinct labels, in increasing order. It is the quantity-based label imbalance of NIID-Bench (Li et al.,
    2022, section IV); rows of a label that no client has are left out.

    Args:
        clients: Number of clients.
        labels: Labels of each client.
        seed: Seed of the draw.
        kind: The name of the split in configurations.

    Examples:
        >>> from turnout.data import LabelsSplit, load
        >>> LabelsSplit(clients=6, labels=1).split(load("iris")).sizes.tolist()
        [25, 25, 25, 25, 25, 25]
    """

    clients: Count
    labels: Count
    seed: Index = 0
    kind: Literal["labels"] = "labels"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        classes, labels = np.unique(dataset.labels, return_inverse=True)
        if self.labels > classes.size:
            raise UserError(
                f"split 'labels': {dataset.name} has {classes.size} labels, so a client cannot have {self.labels}: take fewer"
            )
        generator, holds = np.random.default_rng(self.seed), np.zeros((self.clients, classes.size), bool)
        for client, own in enumerate(holds):
            first = client % classes.size
            own[first] = True
            own[generator.choice(np.delete(np.arange(classes.size), first), self.labels - 1, replace=False)] = True
        parts: list[list[np.ndarray]] = [[] for _ in range(self.clients)]
        for label, holders in enumerate(holds.T):
            rows = generator.permutation(np.flatnonzero(labels == label))
            owners = np.flatnonzero(holders)
            for client, own in zip(owners, np.array_split(rows, max(owners.size, 1)), strict=False):
                parts[client].append(own)
        if not all(sum(map(len, part)) for part in parts):
            raise UserError(f"split 'labels': {self.clients} clients leave one of them without a row: take fewer")
        return Split.of([np.concatenate(part) for part in parts], dataset.rows)


def _deal(generator: np.random.Generator, holds: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the client of each row [rows], drawn uniformly from those with its label."""
    owner = np.empty(labels.size, np.int64)
    for label, holders in enumerate(holds.T):
        rows = labels == label
        owner[rows] = generator.choice(np.flatnonzero(holders), size=np.count_nonzero(rows))
    return owner
