"""Everyone takes part."""

import jax.numpy as jnp

from turnout.core.cohort import Cohort
from turnout.core.records import Count, record, static
from turnout.samplers.base import Sampler, needs_at_most


@record
class Full(Sampler):
    """All clients: p_i = 1, charged as a pass of ceil(n / size) arbitrary selections (`size` None: as one)."""

    size: Count | None = static(default=None)

    supports_availability = True

    def bind(self, population):
        needs_at_most(self.size or 1, population, "full")
        return self

    def draw(self, state, key, population):
        n = population.count
        selections = -(-jnp.sum(population.present) // (self.size or n))
        return Cohort.of(
            jnp.arange(n), 1.0, population, selection="arbitrary", active=population.available, selections=selections
        )

    def expected_draws(self, state, population):
        return population.present.astype(jnp.result_type(float))

    def variance(self, state, population, vectors):
        return jnp.zeros((), vectors.dtype)
