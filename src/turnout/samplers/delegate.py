"""One fixed client that the server relies on."""

import jax.numpy as jnp

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import Index, record
from turnout.samplers.base import Sampler


@record
class Delegate(Sampler):
    """Always client `client` (delegate selection of cost-aware client selection, section 3)."""

    client: Index = 0

    def bind(self, population):
        if self.client >= population.count:
            raise UserError(f"sampler 'delegate' names client {self.client}, but they are 0 to {population.count - 1}")
        return self

    def draw(self, state, key, population):
        return Cohort.of(jnp.asarray(self.client)[None], 1.0, population, selection="delegate")
