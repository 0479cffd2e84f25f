"""One fixed client."""

import jax.numpy as jnp

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import Index, record
from turnout.samplers.base import Sampler


@record
class Delegate(Sampler):
    """Always the same client, with p_i = 1: delegate selection (cost-aware client selection, Jiang et al., 2025, section 3).

    Args:
        client: Number of the client, from 0.

    Raises:
        UserError: On binding, if there is no such client.

    Examples:
        >>> import jax, turnout as t
        >>> population = t.Population(count=10)
        >>> t.Delegate(3).bind(population).draw(None, jax.random.key(0), population).ids.tolist()
        [3]
    """

    client: Index = 0

    def bind(self, population):
        if self.client >= population.count:
            raise UserError(f"sampler 'delegate' names client {self.client}, but they are 0 to {population.count - 1}")
        return self

    def draw(self, state, key, population):
        return Cohort.of(jnp.asarray(self.client)[None], 1.0, population, selection="delegate")
