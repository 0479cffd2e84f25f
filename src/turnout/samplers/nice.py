"""Uniform cohorts of a fixed size."""

import jax.numpy as jnp

from turnout.cohort import Cohort
from turnout.records import Count, record, static
from turnout.samplers.base import Sampler, needs_at_most
from turnout.samplers.permutation import permute


@record
class Nice(Sampler):
    """tau-nice sampling: every subset of `size` = tau clients is equally likely, p_i = tau / n (Cohort Squeeze, section 2)."""

    size: Count = static()

    def bind(self, population):
        needs_at_most(self.size, population, "nice")
        return self

    def draw(self, state, key, population):
        ids = permute(key, jnp.arange(self.size), population.count)
        return Cohort.of(ids, self.size / population.count, population, selection="random")
