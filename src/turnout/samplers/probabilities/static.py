"""Rules with fixed probabilities."""

from dataclasses import field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from turnout.core.errors import UserError
from turnout.core.records import record
from turnout.samplers.probabilities.base import Probability


@record
class Uniform(Probability):
    """Equal scores, a_i = 1: p_i = K / n, or q_i = 1 / n.

    Examples:
        >>> import turnout as t
        >>> t.Uniform().inclusion_probabilities(None, 2, t.Population(count=4)).tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    def scores(self, state, size, population):
        return jnp.ones(population.count, jnp.result_type(float))


@record
class BySize(Probability):
    """Scores proportional to the clients' numbers of rows, a_i = n_i.

    Args:
        sizes: Set by `fit`: n_i [n].

    Raises:
        UserError: On binding, since the row counts need a problem.

    Examples:
        >>> import numpy as np, turnout as t
        >>> rule = t.BySize(sizes=np.array([1.0, 1.0, 2.0]))
        >>> rule.draw_probabilities(None, 1, t.Population(count=3)).tolist()
        [0.25, 0.25, 0.5]
    """

    sizes: Any = field(default=None, repr=False, kw_only=True)

    def fit(self, problem):
        return replace(self, sizes=problem.sizes.astype(np.float64))

    def bind(self, population):
        if self.sizes is None:
            raise UserError("probability 'size' needs the clients' numbers of rows: fit it to a problem")
        return self

    def scores(self, state, size, population):
        return jnp.asarray(self.sizes, jnp.result_type(float))
