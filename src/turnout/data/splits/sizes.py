"""Clients of very different sizes."""

from typing import Literal

import numpy as np

from turnout.core.records import Count, Index, NonNegative, config
from turnout.data.dataset import Dataset
from turnout.data.splits.split import Split, enough_rows, offsets_of


@config
class PowerSplit:
    """Shuffled rows; client sizes proportional to rank^-exponent, and at least 1: few large, many small."""

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
    """Shuffled rows; client sizes proportional to exp(sigma z_i) with z_i ~ N(0, 1), and at least 1: a long tail.

    `sigma` = 1, 2 and 3 are three levels: the largest tenth of 1,000 clients holds about 40, 70 and 90 % of the rows
    (Zeng et al., K-Vib, section 6.3, after Charles et al., Towards Federated Foundation Models, 2024).
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
    """Return sizes [clients] that sum to `rows`: 1 where the falling `shares` give less, else by largest remainder."""
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
