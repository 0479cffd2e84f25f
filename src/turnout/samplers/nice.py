"""Uniform cohorts of a fixed size."""

import jax
import jax.numpy as jnp
from jax import lax

from turnout.core.cohort import Cohort
from turnout.core.permutation import permute
from turnout.core.records import Count, record, static
from turnout.samplers.base import Sampler, needs_at_most
from turnout.samplers.fixed_size import balanced_variance


@record
class Nice(Sampler):
    """tau-nice sampling: every subset of `size` = tau clients is equally likely, p_i = tau / n (Cohort Squeeze, section 2).

    Of m < n available clients likewise, p_i = min(1, tau / m).
    """

    size: Count = static()

    supports_availability = True

    def bind(self, population):
        needs_at_most(self.size, population, "nice")
        return self

    def draw(self, state, key, population):
        n, available = population.count, population.available
        if available is None:
            return Cohort.of(permute(key, jnp.arange(self.size), n), self.size / n, population, selection="random")
        _, ids = lax.top_k(jnp.where(available, jax.random.uniform(key, (n,), float), -1), self.size)
        p = jnp.where(available[ids], self.expected_draws(state, population)[ids], 1)
        return Cohort.of(ids, p, population, selection="random", active=available[ids])

    def expected_draws(self, state, population):
        n, dtype = population.count, jnp.result_type(float)
        if population.available is None:
            return jnp.full(n, self.size / n, dtype)
        many = jnp.sum(population.available, dtype=dtype)
        return jnp.where(population.available, jnp.minimum(1, self.size / jnp.maximum(1, many)), 0)

    def variance(self, state, population, vectors):
        return balanced_variance(self.expected_draws(state, population), vectors, jnp.ones((population.count, 1), vectors.dtype))
