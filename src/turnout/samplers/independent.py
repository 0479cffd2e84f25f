"""Independent (Poisson) sampling."""

import math
from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.permutation import permute
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.tree import positive
from turnout.samplers.base import as_probabilities
from turnout.samplers.in_double import in_double
from turnout.samplers.probabilities import Probability, Uniform
from turnout.samplers.weighted import Weighted

DEVIATIONS = 6
"""Standard deviations of the cohort size above its mean that have places; drawn clients beyond these count as `lost`."""


@record
class Independent(Weighted):
    """Each client takes part independently of the others, client i with probability p_i (ISP in K-Vib, section 2).

    The cohort size is random with mean sum_i p_i. The variance of the sum of v_i / p_i is sum_i (1 / p_i - 1) |v_i|^2, exactly.

    Args:
        probability: A rule for p_i, or p in (0, 1], one number or [n]; None takes p_i = size / n.
        size: K, the expected number of clients; required with a rule or without `probability`.
        capacity: Places of a cohort; None takes the expected size and 6 standard deviations.

    Raises:
        UserError: If neither probability nor size is given, or a rule without a size; on binding, if they do not fit.

    Examples:
        >>> import turnout as t
        >>> population = t.Population(count=4)
        >>> t.Independent(size=2.0).bind(population).expected_draws(None, population).tolist()
        [0.5, 0.5, 0.5, 0.5]
        >>> sampler = t.Independent(t.KVib(rounds=100), size=2.0).bind(population)
        >>> sampler.expected_draws(sampler.start(population), population).tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    probability: Probability | Fraction | list[Fraction] | np.ndarray | None = None
    size: Positive | None = None
    capacity: Count | None = static(default=None)

    name: ClassVar[str] = "independent"

    def __post_init__(self):
        if self.probability is None and self.size is None:
            raise UserError("sampler 'independent' needs either probability or size")
        if self.size is None and isinstance(self.probability, Probability):
            raise UserError("sampler 'independent' needs the size that its probabilities are to sum to")

    def _bound(self, population, fit_rule):
        sampler, n = super()._bound(population, fit_rule), population.count
        # Of all probabilities with the same sum, equal ones give the size the largest variance.
        p = np.asarray((self.size or 0) / n if isinstance(sampler.probability, Probability) else sampler.probability)
        mean, variance = (np.broadcast_to(q, n).sum() for q in (p, p * (1 - p)))
        places = min(n, math.ceil(mean + DEVIATIONS * math.sqrt(variance)))
        return replace(sampler, capacity=self.capacity or places)

    def checked(self, probability, population):
        if self.size is not None:
            return super().checked(probability, population)
        return as_probabilities(probability, population.count, self.name, scalar=True)

    def _common_probability(self, n: int) -> Float[Array, ""] | None:
        """Return p_i if it is the same for all clients, else None."""
        if isinstance(self.probability, Probability):
            return jnp.asarray(self.size, jnp.result_type(float)) / n if isinstance(self.probability, Uniform) else None
        return jnp.asarray(self.probability, jnp.result_type(float)) if jnp.ndim(self.probability) == 0 else None

    @property
    def draws_ahead(self) -> bool:
        return self._common_probability(1) is not None

    @in_double
    def draw(self, state, key, population):
        n, places = population.count, self.capacity or population.count
        probability = self._common_probability(n)
        if probability is not None and population.available is None:
            # The size is binomial and the cohort a uniform subset of that size: O(places) instead of O(n).
            size_key, subset_key = jax.random.split(key)
            drawn = jax.random.binomial(size_key, n, probability).astype("int32")
            ids = permute(subset_key, jnp.arange(places), n)
        else:
            p = self.expected_draws(state, population)
            heads = jax.random.uniform(key, (n,), p.dtype) < p
            drawn = jnp.sum(heads, dtype="int32")
            # As `jnp.nonzero`, which warns of 64 bits where the program has 32.
            place = jnp.where(heads, jnp.cumsum(heads, dtype="int32") - 1, places)
            ids = jnp.zeros(places, "int32").at[place].set(jnp.arange(n, dtype="int32"), mode="drop")
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
