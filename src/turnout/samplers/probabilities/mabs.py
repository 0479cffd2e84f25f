"""MABS: the multi-armed bandit sampler."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.records import Count, Positive, Share, record
from turnout.samplers.probabilities.base import HorizonRule
from turnout.samplers.probabilities.scaling import bound_or_zero, estimated, finite, squares
from turnout.samplers.probabilities.waterfilling import blended, normalised


class LogWeights(NamedTuple):
    """log w_i [n], the largest being 0, and G, 0 while unknown."""

    logs: Float[Array, " n"]
    bound: Float[Array, ""]


@record
class Mabs(HorizonRule):
    """MABS: q_i = (1 - eta) w_i / sum_j w_j + eta / n, w_i <- w_i exp(delta pi_i^2 / q_i^3) for each draw (Salehi et al., 2017).

    delta = sqrt(eta^4 ln n / (T n^5 abar)) with abar = G^4, the mean of pi_i^4 over all clients at the start. In designs without
    replacement a drawn client counts as K q_i / p_i draws.

    Args:
        mixing: eta in [0, 1].
        bound: G, the fourth root of abar; None takes the first cohort's mean of pi_i^4.
        rounds: T; None takes the rounds of the run.

    Examples:
        >>> import turnout as t
        >>> population, rule = t.Population(count=4), t.Mabs(rounds=100)
        >>> rule.inclusion_probabilities(rule.start(population), 2, population).tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    mixing: Share = 0.4
    bound: Positive | None = None
    rounds: Count | None = None

    def start(self, population):
        return LogWeights(jnp.zeros(population.count, jnp.result_type(float)), bound_or_zero(self.bound))

    def theta(self, size, population):
        return jnp.asarray(self.mixing, jnp.result_type(float))

    def scores(self, state, size, population):
        logs = jnp.where(population.present, state.logs, -jnp.inf)
        # The largest weight among the available clients is 1, however small it is among all.
        top = jnp.max(logs)
        return jnp.exp(logs - jnp.where(jnp.isfinite(top), top, 0))

    def observe(self, state, cohort, feedback, size):
        n, bound = state.logs.size, estimated(state.bound, cohort, feedback, 4)
        eta = jnp.asarray(self.mixing, feedback.dtype)
        delta = eta**2 * jnp.sqrt(jnp.log(jnp.asarray(n, eta.dtype)) / (self.horizon * float(n) ** 5))
        q = blended(normalised(jnp.exp(state.logs)), eta)[cohort.ids]
        gains = jnp.where(cohort.active, delta * size * squares(bound, cohort, feedback) / q**2, 0)
        logs = state.logs.at[cohort.ids].add(finite(gains))
        return LogWeights(jnp.maximum(logs - jnp.max(logs), -jnp.finfo(logs.dtype).max / 4), bound)
