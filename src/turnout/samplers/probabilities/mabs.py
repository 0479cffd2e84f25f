"""Multi-armed bandit sampler."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.records import Count, Positive, Share, record
from turnout.samplers.probabilities.horizon import Planned
from turnout.samplers.probabilities.scaling import estimated, finite, known, squares
from turnout.samplers.probabilities.waterfilling import blended, normalised


class Weights(NamedTuple):
    """log w_i [n], the largest being 0, and G, which is 0 before it is known."""

    logs: Float[Array, " n"]
    bound: Float[Array, ""]


@record
class Mabs(Planned):
    """q_i = (1 - eta) w_i / sum_j w_j + eta / n, and w_i <- w_i exp(delta pi_i^2 / q_i^3) for each draw of i (multi-armed bandit
    sampler, Salehi et al., 2017).

    eta = `mixing`, delta = sqrt(eta^4 ln n / (T n^5 abar)), T = `rounds`, by default those of the run; abar = G^4, G = `bound`.
    abar is meant to be the mean of pi_i^4 over all clients at the start; where G is not given, it is that over the first cohort.
    A client drawn by another design counts for K expansion_i q_i draws.
    """

    mixing: Share = 0.4
    bound: Positive | None = None
    rounds: Count | None = None

    def start(self, population):
        return Weights(jnp.zeros(population.count, jnp.result_type(float)), known(self.bound))

    def theta(self, size, population):
        return jnp.asarray(self.mixing, jnp.result_type(float))

    def scores(self, state, size, population):
        logs = jnp.where(population.present, state.logs, -jnp.inf)
        # Of clients with weights near 0 the largest is 1, should the others be away.
        top = jnp.max(logs)
        return jnp.exp(logs - jnp.where(jnp.isfinite(top), top, 0))

    def observe(self, state, cohort, feedback, size):
        n, bound = state.logs.size, estimated(state.bound, cohort, feedback, 4)
        eta = jnp.asarray(self.mixing, feedback.dtype)
        delta = eta**2 * jnp.sqrt(jnp.log(jnp.asarray(n, eta.dtype)) / (self.horizon * float(n) ** 5))
        q = blended(normalised(jnp.exp(state.logs)), eta)[cohort.ids]
        gained = jnp.where(cohort.active, delta * size * squares(bound, cohort, feedback) / q**2, 0)
        logs = state.logs.at[cohort.ids].add(finite(gained))
        return Weights(jnp.maximum(logs - jnp.max(logs), -jnp.finfo(logs.dtype).max / 4), bound)
