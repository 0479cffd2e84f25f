"""Last norm: scores from the last reply of each client."""

import jax.numpy as jnp

from turnout.core.records import Share, record
from turnout.core.tree import positive
from turnout.samplers.probabilities.by_client import ByClient
from turnout.samplers.probabilities.waterfilling import count


@record
class LastNorm(ByClient):
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

    mixes_before_cap = True

    def first(self, population):
        return -population.shares

    def theta(self, size, population):
        return jnp.asarray(self.mixing, jnp.result_type(float))

    def unit(self, known, cohort, feedback):
        usable = cohort.active & (cohort.share > 0)
        norms = jnp.where(usable, feedback / positive(cohort.share), 0)
        weights = jnp.where(usable, cohort.weight, 0)
        first = jnp.sum(norms / positive(count(usable, norms.dtype)))
        mean = jnp.sum(norms * (weights / positive(jnp.sum(weights))))
        later = jnp.where(jnp.any(usable), 0.9 * known + 0.1 * mean, known)
        return jnp.where(known > 0, later, first)

    def learned(self, own, cohort, feedback, unit):
        return feedback
