"""Rules with fixed probabilities."""

from dataclasses import field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from turnout.core.errors import UserError
from turnout.core.records import Positive, record
from turnout.samplers.base import as_numbers
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


@record
class BySmoothness(Probability):
    """a_i = lambda_i L_i: importance sampling by bounds on the gradients, for which nobody is asked (Zhao and Zhang, 2015).

    L_i is the smoothness of f_i, so that |grad f_i(x) - grad f_i(x*)| <= L_i |x - x*|. Of all p it minimises the bound
    sum_i (1 / p_i - 1) lambda_i^2 L_i^2 |x - x*|^2 on the variance of independent draws where all grad f_i(x*) = 0, and gradient
    steps may be as long as the mean of the L_i allows, in place of the largest (Needell et al., 2014). Averages are unbiased
    whatever the bounds are.

    Args:
        smoothness: L_i > 0 [n], or other bounds on the norms of replies, up to a factor; default: those of the problem.

    Raises:
        UserError: On binding, if these are not n positive numbers, or are left out where no problem knows the L_i.

    Examples:
        >>> import numpy as np, turnout as t
        >>> population = t.Population(count=3)
        >>> rule = t.BySmoothness(smoothness=np.array([1.0, 1.0, 2.0])).bind(population)
        >>> rule.draw_probabilities(None, 1, population).tolist()
        [0.25, 0.25, 0.5]
    """

    smoothness: list[Positive] | np.ndarray | None = None

    def fit(self, problem):
        if self.smoothness is not None:
            return self.bind(problem.population)
        constants = problem.constants()
        if constants is None:
            raise UserError(f"probability 'smoothness' needs L_i, which {type(problem).__name__} does not know: give smoothness")
        return replace(self, smoothness=np.asarray(constants.smoothness)).bind(problem.population)

    def bind(self, population):
        if self.smoothness is None:
            raise UserError("probability 'smoothness' needs the L_i of a problem: give smoothness, or fit it to one")
        bounds = as_numbers(self.smoothness, "smoothness", "smoothness").astype(float)
        if bounds.shape != (population.count,) or not np.all((bounds > 0) & np.isfinite(bounds)):
            raise UserError(
                f"probability 'smoothness' needs {population.count} numbers above 0, one for each client: correct smoothness"
            )
        return replace(self, smoothness=bounds)

    def scores(self, state, size, population):
        return population.shares * jnp.asarray(self.smoothness, jnp.result_type(float))
