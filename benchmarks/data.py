"""Made-up classification data, cut into clients."""

import numpy as np
from scipy.sparse import csr_array

from benchmarks.timing import SEED
from turnout.problems import Logistic
from turnout.problems.base import Population
from turnout.problems.row_formats import SparseRows

MU = 1e-3


def equal_clients(clients: int, rows: int, width: int) -> Logistic:
    """Return logistic regression in single precision on `clients` clients with `rows` rows each."""
    generator = np.random.default_rng(SEED)
    features = generator.normal(size=(clients * rows, width)) / np.sqrt(width)
    noise = 0.1 * generator.normal(size=clients * rows)
    labels = np.sign(features @ generator.normal(size=width) + noise)
    parts = features.astype(np.float32), labels.astype(np.float32)
    return Logistic(parts, np.arange(clients + 1) * rows, Population(count=clients), mu=MU)


def power_sizes(clients: int, median: int, spread: float) -> np.ndarray:
    """Return sizes [clients] proportional to rank^-a, the largest `spread` times the median."""
    rank = np.arange(1.0, clients + 1)
    exponent = np.log(spread) / np.log(np.median(rank))
    return np.rint(median * spread * rank**-exponent).astype(int)


def unequal_clients(sizes: np.ndarray, width: int, entries: int | None = None) -> Logistic:
    """Return logistic regression in double precision, its rows dense or with `entries` nonzeros 1.0 each."""
    generator = np.random.default_rng(SEED)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = int(offsets[-1])
    labels = generator.choice([-1.0, 1.0], size=rows)
    if entries is None:
        features = generator.standard_normal((rows, width))
    else:
        # One entry in each of `entries` equal ranges of columns, as one-hot coded categories have it.
        edges = np.linspace(0, width, entries + 1).astype(int)
        columns = generator.integers(edges[:-1], edges[1:], size=(rows, entries)).astype(np.int32).ravel()
        starts = np.arange(rows + 1, dtype=np.int32) * entries
        features = SparseRows.of(csr_array((np.ones(rows * entries), columns, starts), shape=(rows, width)))
    return Logistic((features, labels), offsets, Population(count=len(sizes)), mu=MU)
