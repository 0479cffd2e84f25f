"""Probabilities that are known before a run."""

from dataclasses import field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from turnout.core.errors import UserError
from turnout.core.records import record
from turnout.samplers.probabilities.base import Probability


@record
class Uniform(Probability):
    """The same score for every client."""

    def scores(self, state, size, population):
        return jnp.ones(population.count, jnp.result_type(float))


@record
class BySize(Probability):
    """Scores proportional to n_i, the number of the client's rows."""

    sizes: Any = field(default=None, repr=False)

    def fit(self, problem):
        return replace(self, sizes=problem.sizes.astype(np.float64))

    def bind(self, population):
        if self.sizes is None:
            raise UserError("probability 'size' needs the clients' numbers of rows: fit it to a problem")
        return self

    def scores(self, state, size, population):
        return jnp.asarray(self.sizes, jnp.result_type(float))
