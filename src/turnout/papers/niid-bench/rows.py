"""Parts of data sets, the generated FCUBE, and the splits of NIID-Bench."""

from typing import Literal

import numpy as np

from turnout.core.errors import UserError
from turnout.core.records import Count, Index, Positive, config
from turnout.data import Dataset, Source, Split, load

TRIES, LEAST = 1000, 10
"""Draws of a Dirichlet split, and the least rows of a client, as in NIID-Bench."""


@config
class FirstRows(Source):
    """The first rows of a data set.

    Args:
        name: The data set.
        rows: How many.
    """

    name: str
    rows: Count

    def load(self, folder=None) -> Dataset:
        """Return the rows."""
        data = load(self.name, folder)
        return Dataset(f"{self.name}-{self.rows}", data.features[: self.rows], data.labels[: self.rows])


@config
class Fcube(Source):
    """FCUBE: points of the cube [-1, 1]^3 with the label 0 where the first coordinate is above 0, and 1 elsewhere.

    Each of the four clients has two octants that are symmetric about the origin, with equally many points (Li et al., 2022,
    section IV). The points to test are uniform.

    Args:
        part: "train", 4,000 points with clients, or "test", 1,000.
        seed: Seed of the draw.
    """

    part: Literal["train", "test"] = "train"
    seed: Index = 0

    def load(self, folder=None) -> Dataset:
        """Return the points."""
        generator = np.random.default_rng([self.seed, self.part == "test"])
        if self.part == "test":
            points, clients = generator.uniform(-1, 1, (1000, 3)), None
        else:
            clients, sign = np.repeat(np.arange(4), 1000), np.tile([1, -1], 2000)
            turned = np.stack([np.ones(4000), np.where(clients > 1, -1, 1), np.where(clients % 2, -1, 1)], axis=1)
            points = generator.uniform(0, 1, (4000, 3)) * turned * sign[:, None]
        return Dataset(f"fcube-{self.part}", points, (points[:, 0] <= 0).astype(np.int64), clients)


@config
class BalancedDirichlet:
    """NIID-Bench's Dirichlet split: a client that has its even share of all rows gets none of the labels that follow.

    The draw is repeated until each client has at least 10 rows.

    Args:
        clients: Number of clients.
        concentration: Parameter of the Dirichlet distribution.
        seed: Seed of the draw.
    """

    clients: Count
    concentration: Positive = 0.5
    seed: Index = 0

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        generator = np.random.default_rng(self.seed)
        for _ in range(TRIES):
            parts: list[list[int]] = [[] for _ in range(self.clients)]
            for label in np.unique(dataset.labels):
                rows = generator.permutation(np.flatnonzero(dataset.labels == label))
                shares = generator.dirichlet(np.full(self.clients, self.concentration))
                shares *= np.array([len(part) for part in parts]) < dataset.rows / self.clients
                cuts = (np.cumsum(shares / shares.sum())[:-1] * rows.size).astype(int)
                for part, own in zip(parts, np.split(rows, cuts), strict=True):
                    part.extend(own.tolist())
            if min(map(len, parts)) >= LEAST:
                return Split.of(parts, dataset.rows)
        raise UserError(f"no draw of {TRIES} left each of {self.clients} clients {LEAST} rows: take fewer clients")
