"""Systematic sampling in random order."""

import math
from dataclasses import field, replace
from typing import ClassVar

import jax
import jax.numpy as jnp

from turnout.core.records import Count, Positive, record, static
from turnout.core.tree import positive
from turnout.samplers.fixed_size import FixedSize, in_random_order


@record
class Systematic(FixedSize):
    """K clients by systematic sampling: one random start, then equal steps along the cumulated p_i (Madow, 1949).

    The clients, in random order, cover intervals of lengths p_i on a line; those that contain u, u + 1, ... are drawn, u being
    uniform in [0, 1). The inclusion probabilities p_i are exact. A cohort has K clients, or the next smaller or larger whole
    number where K is none. The variance is Hajek's approximation for a whole K.

    Args:
        probability: A rule for p_i, or p [n] in (0, 1] with sum K; None takes p_i = K / n.
        size: K, the expected number of clients in a cohort, at least 1.
        capacity: Places of a cohort. Set by `bind`: K, rounded up.

    Examples:
        >>> import jax, turnout as t
        >>> population = t.Population(count=4)
        >>> sampler = t.Systematic([0.25, 0.25, 0.5, 1.0], size=2).bind(population)
        >>> cohort = sampler.draw(None, jax.random.key(0), population)
        >>> int(cohort.size), 3 in cohort.ids.tolist()
        (2, True)
    """

    size: Positive = field(kw_only=True)
    capacity: Count | None = static(default=None, repr=False, kw_only=True)

    name: ClassVar[str] = "systematic"

    def _bound(self, population, fit_rule):
        return replace(super()._bound(population, fit_rule), capacity=self.capacity or math.ceil(self.size))

    @property
    def places(self):
        return self.capacity or math.ceil(self.size)

    def select(self, key, p, population):
        shuffle, start = jax.random.split(key)
        order = in_random_order(shuffle, p)
        ends = jnp.cumsum(p[order])
        size = jnp.minimum(jnp.asarray(self.size, p.dtype), jnp.sum(p > 0, dtype=p.dtype))
        hits = jnp.floor(ends * (size / positive(ends[-1])) + jax.random.uniform(start, (), p.dtype))
        return jnp.zeros_like(p).at[order].set(jnp.diff(hits, prepend=0))
