"""Splits by label: each client has more rows of some classes than of others."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le

from turnout.core.errors import UserError
from turnout.core.records import Count, Index, config
from turnout.data.dataset import Dataset
from turnout.data.splits.split import Split, enough_rows, offsets_of

TRIES = 1000
"""Draws after which a split gives up."""


@config
class DirichletSplit:
    """Each label's rows are divided among the clients in shares drawn from Dirichlet(concentration, ..., concentration).

    A small concentration gives clients few labels and unequal sizes, a large one equal clients. Shares are drawn again, at most
    `TRIES` times, until every client has a row.

    Args:
        clients: Number of clients.
        concentration: Parameter of the Dirichlet distribution, from 1e-6 to 1e9.
        seed: Seed of the draw.
        kind: The name of the split in configurations.

    Examples:
        >>> from turnout.data import DirichletSplit, load
        >>> DirichletSplit(clients=4, concentration=0.5).split(load("iris")).sizes.tolist()
        [51, 18, 47, 34]
    """

    clients: Count
    concentration: Annotated[float, Ge(1e-6), Le(1e9)]
    seed: Index = 0
    kind: Literal["dirichlet"] = "dirichlet"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        enough_rows(self.kind, dataset, self.clients)
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


def _deal(generator: np.random.Generator, holds: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the client of each row [rows], drawn uniformly from those with its label."""
    owner = np.empty(labels.size, np.int64)
    for label, holders in enumerate(holds.T):
        rows = labels == label
        owner[rows] = generator.choice(np.flatnonzero(holders), size=np.count_nonzero(rows))
    return owner


def _counts(cuts: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return how many rows of each label each client gets [labels, clients], given the cuts between clients."""
    edges = np.concatenate([np.zeros((totals.size, 1), int), cuts, totals[:, None]], axis=1)
    return np.diff(edges, axis=1)
