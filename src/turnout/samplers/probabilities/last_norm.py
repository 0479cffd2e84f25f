"""Last norm: scores from the last reply of each client."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.records import Share, record
from turnout.core.tree import positive
from turnout.samplers.probabilities.base import Probability
from turnout.samplers.probabilities.scaling import latest
from turnout.samplers.probabilities.waterfilling import count


class LastNorms(NamedTuple):
    """The last pi_i [n], negative if client i never replied, and g0, 0 while unknown."""

    last: Float[Array, " n"]
    typical: Float[Array, ""]


@record
class LastNorm(Probability):
    """a_i = lambda_i |r_i| of the last reply of client i, lambda_i g0 before the first; mixed with their mean, then capped.

    Mixing before the cap keeps p_i = 1 where the cap gives it, and p_i >= theta K / n. g0 is the mean |r_i| of the first cohort;
    then g0 <- 0.9 g0 + 0.1 times the cohort's mean |r_i| with weights lambda_i / p_i. The first draw has a_i = lambda_i.

    Args:
        mixing: theta in [0, 1], the weight of the mean score.

    Examples:
        >>> import turnout as t
        >>> population, rule = t.Population(count=4), t.LastNorm()
        >>> rule.inclusion_probabilities(rule.start(population), 2, population).tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    mixing: Share = 0.05

    learns_from_feedback = True
    mixes_before_cap = True

    def start(self, population):
        dtype = jnp.result_type(float)
        return LastNorms(jnp.full(population.count, -1, dtype), jnp.zeros((), dtype))

    def theta(self, size, population):
        return jnp.asarray(self.mixing, jnp.result_type(float))

    def scores(self, state, size, population):
        new = population.shares * positive(state.typical)
        return jnp.where(state.last < 0, new, state.last)

    def observe(self, state, cohort, feedback, size):
        usable = cohort.active & (cohort.share > 0)
        norms = jnp.where(usable, feedback / positive(cohort.share), 0)
        weights = jnp.where(usable, cohort.weight, 0)
        first = jnp.sum(norms / positive(count(usable, norms.dtype)))
        mean = jnp.sum(norms * (weights / positive(jnp.sum(weights))))
        later = jnp.where(jnp.any(usable), 0.9 * state.typical + 0.1 * mean, state.typical)
        return LastNorms(latest(state.last, cohort, feedback), jnp.where(state.typical > 0, later, first))
