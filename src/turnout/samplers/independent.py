"""Independent coins, one for each client."""

import math
from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.permutation import permute
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.tree import positive
from turnout.samplers.base import fractions
from turnout.samplers.probabilities import Probability, Uniform
from turnout.samplers.weighted import Weighted

DEVIATIONS = 6
"""Places are kept for the mean cohort size and so many standard deviations; more drawn clients than that are `lost`."""


@record
class Independent(Weighted):
    """Client i takes part with probability p_i, independently of all others (K-Vib's ISP, section 2).

    Give p_i as `probability` (one number, or n of them), or the expected cohort `size` = K with a rule for p_i as `probability`;
    without one p_i = K / n. `capacity` is the number of places.
    """

    probability: Any | Probability | Fraction | list[Fraction] = None
    size: Positive | None = None
    capacity: Count | None = static(default=None)

    name: ClassVar[str] = "independent"

    def __post_init__(self):
        if self.probability is None and self.size is None:
            raise UserError("sampler 'independent' needs either probability or size")
        if self.size is None and isinstance(self.probability, Probability):
            raise UserError("sampler 'independent' needs the size that its probabilities are to sum to")

    def _bound(self, population, fitted):
        sampler, n = super()._bound(population, fitted), population.count
        # Of all probabilities with the same sum, equal ones make the size vary most.
        p = np.asarray((self.size or 0) / n if isinstance(sampler.probability, Probability) else sampler.probability)
        mean, variance = (np.broadcast_to(q, n).sum() for q in (p, p * (1 - p)))
        places = min(n, math.ceil(mean + DEVIATIONS * math.sqrt(variance)))
        return replace(sampler, capacity=self.capacity or places)

    def given(self, probability, population):
        if self.size is not None:
            return super().given(probability, population)
        return fractions(probability, population.count, self.name, one=True)

    def _alike(self, n: int) -> Float[Array, ""] | None:
        """p_i where it is the same for all clients."""
        if isinstance(self.probability, Probability):
            return jnp.asarray(self.size, jnp.result_type(float)) / n if isinstance(self.probability, Uniform) else None
        return jnp.asarray(self.probability, jnp.result_type(float)) if jnp.ndim(self.probability) == 0 else None

    def draw(self, state, key, population):
        n, places = population.count, self.capacity or population.count
        probability = self._alike(n)
        if probability is not None and population.available is None:
            # The number of heads is binomial, and who they are is a uniform subset: O(places), not O(n).
            many, who = jax.random.split(key)
            drawn = jax.random.binomial(many, n, probability).astype("int32")
            ids = permute(who, jnp.arange(places), n)
        else:
            p = self.expected_draws(state, population)
            heads = jax.random.uniform(key, (n,), p.dtype) < p
            drawn = jnp.sum(heads, dtype="int32")
            ids = jnp.nonzero(heads, size=places, fill_value=0)[0]
            probability = p[ids]
        return Cohort.of(
            ids,
            probability,
            population,
            selection="arbitrary",
            active=jnp.arange(places, dtype="int32") < drawn,
            lost=jnp.maximum(drawn - places, 0),
        )

    def variance(self, state, population, vectors):
        p = self.expected_draws(state, population)
        return jnp.sum(jnp.where(p > 0, (1 - p) / positive(p), 0) * jnp.sum(vectors**2, axis=1))
