"""Splits into clients of very different sizes."""

from typing import Literal

import numpy as np

from turnout.core.records import Count, Index, NonNegative, config
from turnout.data.dataset import Dataset
from turnout.data.splits.split import Split, enough_rows, offsets_of


@config
class PowerSplit:
    """Shuffled rows in clients whose sizes are proportional to rank^-exponent, and at least 1.

    Args:
        clients: Number of clients.
        exponent: Exponent of the power law, >= 0.
        seed: Seed of the shuffle.
        kind: The name of the split in configurations.

    Examples:
        >>> from turnout.data import PowerSplit, load
        >>> PowerSplit(clients=4, exponent=1.0).split(load("iris")).sizes.tolist()
        [72, 36, 24, 18]
    """

    clients: Count
    exponent: NonNegative
    seed: Index = 0
    kind: Literal["power"] = "power"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`, the largest client first."""
        enough_rows(self.kind, dataset, self.clients)
        sizes = _apportioned(dataset.rows, np.arange(1.0, self.clients + 1) ** -self.exponent)
        return Split(np.random.default_rng(self.seed).permutation(dataset.rows), offsets_of(sizes))


@config
class LogNormalSplit:
    """Shuffled rows in clients whose sizes are proportional to exp(sigma z_i), z_i ~ N(0, 1), and at least 1.

    With `sigma` = 1, 2 and 3 the largest tenth of 1,000 clients has about 40, 70 and 90 % of the rows (Zeng et al., K-Vib,
    section 6.3, after Charles et al., Towards federated foundation models, 2024).

    Args:
        clients: Number of clients.
        sigma: Standard deviation of the logarithms of the sizes, >= 0.
        seed: Seed of the sizes and the shuffle.
        kind: The name of the split in configurations.

    Examples:
        >>> from turnout.data import LogNormalSplit, load
        >>> LogNormalSplit(clients=4, sigma=1.0).split(load("iris")).sizes.tolist()
        [57, 34, 33, 26]
    """

    clients: Count
    sigma: NonNegative
    seed: Index = 0
    kind: Literal["log-normal"] = "log-normal"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`, the largest client first."""
        enough_rows(self.kind, dataset, self.clients)
        generator = np.random.default_rng(self.seed)
        logarithms = self.sigma * np.sort(generator.normal(size=self.clients))[::-1]
        sizes = _apportioned(dataset.rows, np.exp(logarithms - logarithms[0]))
        return Split(generator.permutation(dataset.rows), offsets_of(sizes))


def _apportioned(rows: int, shares: np.ndarray) -> np.ndarray:
    """Return sizes [clients] that sum to `rows`: 1 where the decreasing `shares` give less, else by largest remainder."""
    large = shares.size
    while True:
        ideal = shares[:large] / shares[:large].sum() * (rows - (shares.size - large))
        above = max(1, np.count_nonzero(ideal >= 1))
        if above == large:
            break
        large = above
    sizes = np.ones(shares.size, np.int64)
    sizes[:large] = np.floor(ideal)
    left = rows - sizes.sum()
    sizes[np.argsort(sizes[:large] - ideal, kind="stable")[:left]] += 1
    return sizes
