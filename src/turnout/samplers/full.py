"""Full participation."""

import jax.numpy as jnp

from turnout.core.cohort import Cohort
from turnout.core.records import Count, record, static
from turnout.samplers.base import Sampler, check_size


@record
class Full(Sampler):
    """All available clients: p_i = 1.

    Args:
        size: Clients per selection: the draw is charged as ceil(n / size) arbitrary selections; None charges one.

    Examples:
        >>> import jax, turnout as t
        >>> population = t.Population(count=10)
        >>> cohort = t.Full(size=4).draw(None, jax.random.key(0), population)
        >>> int(cohort.size), int(cohort.selections)
        (10, 3)
    """

    size: Count | None = static(default=None)

    supports_availability = True

    def bind(self, population):
        check_size(self.size or 1, population, "full")
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
