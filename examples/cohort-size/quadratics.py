"""A problem without data: quadratics with eigenvalues in [1, 10]."""

import numpy as np

import turnout as t
from turnout.core.records import Count, Index, config
from turnout.data import Split


@config
class Quadratics:
    """Random quadratics with minimisers from N(0, I).

    Args:
        clients: n, the number of clients.
        dimension: d, the number of parameters.
        seed: Seed of the draw.
    """

    clients: Count = 100
    dimension: Count = 40
    seed: Index = 0

    def build(self):
        """Return the problem."""
        return t.Quadratic.random(self.clients, self.dimension, seed=self.seed)

    def split(self):
        """Return that client i has the row i, its quadratic."""
        return Split.of([np.array([i]) for i in range(self.clients)], self.clients)
