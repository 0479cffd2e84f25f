"""Which client's replies stand out: whose they are if a run diverges."""

from math import inf, isfinite
from statistics import median
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.core.lazy_stack import release_pages

FACTOR = 1e3
"""How many times as large as the others' a reply has to be to stand out."""


class Outlier(NamedTuple):
    """A reply that stands out.

    Args:
        client: Number of the client.
        size: Its largest entry.
        others: The median of the largest entries of the other clients' replies.
    """

    client: int
    size: float
    others: float


class Outliers:
    """Compares the replies to each exchange, and remembers the one that stands out most."""

    def __init__(self):
        self.worst: Outlier | None = None

    def note(self, replies: dict[int, PyTree]) -> None:
        """Compare the replies to one exchange.

        Args:
            replies: Reply of each client, by its number.
        """
        sizes = {client: largest_entry(reply) for client, reply in replies.items()}
        if len(sizes) > 1:
            client = max(sizes, key=lambda client: sizes[client])
            size = sizes.pop(client)
            outlier = Outlier(client, size, median(sizes.values()))
            if size > FACTOR * outlier.others and (self.worst is None or _ratio(outlier) > _ratio(self.worst)):
                self.worst = outlier


def largest_entry(tree: PyTree) -> float:
    """Return max |entry| over all arrays of `tree`, infinity for NaN; no real array is copied, since it may be large."""
    largest = 0.0
    for leaf in jax.tree.leaves(tree):
        real = np.abs(leaf) if np.iscomplexobj(leaf) else leaf
        ends = [float(np.min(real)), float(np.max(real))] if leaf.size else []
        largest = max([largest, *(abs(end) if isfinite(end) else inf for end in ends)])
        release_pages(leaf)
    return largest


def _ratio(outlier: Outlier) -> float:
    return outlier.size / max(outlier.others, np.finfo(float).tiny)
