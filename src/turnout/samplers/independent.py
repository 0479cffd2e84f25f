"""Independent coins, one for each client."""

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from turnout.cohort import Cohort
from turnout.errors import UserError
from turnout.records import Count, Fraction, Positive, record, static
from turnout.samplers.base import Sampler, array_of, needs_at_most
from turnout.samplers.permutation import permute

DEVIATIONS = 6
"""Places are kept for the mean cohort size and so many standard deviations; more drawn clients than that are `lost`."""


@record
class Independent(Sampler):
    """Client i takes part with probability p_i, independently of all others (K-Vib's ISP, section 2).

    Give `probability` (one number, or n of them) or the expected cohort `size` = n p. `capacity` is the number of places.
    """

    probability: Any | Fraction | list[Fraction] = None
    size: Positive | None = None
    capacity: Count | None = static(default=None)

    def bind(self, population):
        n = population.count
        if (self.probability is None) == (self.size is None):
            raise UserError("sampler 'independent' needs either probability or size")
        if self.size is not None:
            needs_at_most(self.size, population, "independent")
        p = array_of(self.probability if self.size is None else self.size / n, "independent", "probability").astype(float)
        if p.shape not in ((), (n,)):
            raise UserError(f"sampler 'independent' needs 1 or {n} probabilities, but there are {p.size}")
        if not np.all((p > 0) & (p <= 1)):
            raise UserError(f"sampler 'independent' needs probabilities in (0, 1], but one is {p[~((p > 0) & (p <= 1))][0]}")
        mean, variance = (np.broadcast_to(q, n).sum() for q in (p, p * (1 - p)))
        places = min(n, math.ceil(mean + DEVIATIONS * math.sqrt(variance)))
        return replace(self, probability=p, size=None, capacity=self.capacity or places)

    def draw(self, state, key, population):
        n, places = population.count, self.capacity or population.count
        if jnp.ndim(self.probability) == 0:
            # Equal coins: the number of heads is binomial, and who they are is a uniform subset; O(places), not O(n).
            many, who = jax.random.split(key)
            drawn = jax.random.binomial(many, n, self.probability).astype("int32")
            ids, probability = permute(who, jnp.arange(places), n), self.probability
        else:
            heads = jax.random.uniform(key, (n,)) < jnp.asarray(self.probability)
            drawn = jnp.sum(heads, dtype="int32")
            ids = jnp.nonzero(heads, size=places, fill_value=0)[0]
            probability = jnp.asarray(self.probability)[ids]
        return Cohort.of(
            ids,
            probability,
            population,
            selection="arbitrary",
            active=jnp.arange(places, dtype="int32") < drawn,
            lost=jnp.maximum(drawn - places, 0),
        )
