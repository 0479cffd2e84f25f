"""How long each client of a federation takes, as speeds that a simulation can replay."""

from collections import defaultdict

import numpy as np
from jaxtyping import Float
from scipy.optimize import nnls

from turnout.devices.files import to_csv

FACTORS = 4
"""Factors of a client's time: an exchange, an oracle call, a byte up, a byte down."""


class Stopwatch:
    """Sums over the exchanges of each client, from which its speeds are fitted."""

    def __init__(self):
        self._gram = defaultdict(lambda: np.zeros((FACTORS, FACTORS)))
        self._seen = defaultdict(lambda: np.zeros(FACTORS))

    def add(self, client: int, seconds: float, queries: int, up: int, down: int) -> None:
        """Add an exchange.

        Args:
            client: The client.
            seconds: How long its reply took.
            queries: Its oracle calls.
            up: Bytes of the reply.
            down: Bytes of the message.
        """
        factors = np.array([1.0, queries, up, down])
        self._gram[client] += np.outer(factors, factors)
        self._seen[client] += seconds * factors

    def to_csv(self, n: int) -> str | None:
        """Return the speeds of n clients as `Devices.from_csv` reads them, or None where nobody was measured.

        They are the least squares fit of the times by non-negative speeds; a factor that does not vary is part of another one.
        Clients that were never measured get the medians of the others.

        Args:
            n: Number of clients.
        """
        if not self._gram:
            return None
        fits = np.full((n, FACTORS), np.nan)
        for client, gram in self._gram.items():
            fits[client] = fitted(gram, self._seen[client])
        fits = np.where(np.isnan(fits), np.nanmedian(fits, axis=0), fits)
        with np.errstate(divide="ignore"):
            return to_csv(
                {
                    "latency": fits[:, 0],
                    "seconds_per_query": fits[:, 1],
                    "bandwidth_up": 1 / fits[:, 2],
                    "bandwidth_down": 1 / fits[:, 3],
                }
            )


def fitted(gram: Float[np.ndarray, "k k"], seen: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """Return the x >= 0 that minimises |A x - b|^2, for A^T A = `gram` and A^T b = `seen`.

    Args:
        gram: A^T A.
        seen: A^T b.
    """
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    values, vectors = np.linalg.eigh(gram / np.outer(scale, scale))
    kept = values > 1e-10 * values.max()
    root = np.sqrt(values[kept])
    x, _ = nnls(root[:, None] * vectors[:, kept].T, (vectors[:, kept].T @ (seen / scale)) / root)
    return x / scale
