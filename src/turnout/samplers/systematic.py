"""Systematic sampling in random order."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from turnout.core.records import record
from turnout.core.tree import positive
from turnout.samplers.fixed_size import FixedSize, in_random_order


@record
class Systematic(FixedSize):
    """Exactly K clients by systematic sampling: one random start, then equal steps along the cumulated p_i (Madow, 1949).

    The clients, in random order, cover intervals of lengths p_i on a line; those that contain u, u + 1, ... are drawn, u being
    uniform in [0, 1). The inclusion probabilities p_i are exact. The variance is Hajek's approximation.

    Args:
        probability: A rule for p_i, or p [n] in (0, 1] with sum K; None takes p_i = K / n.
        size: K, the number of clients in a cohort.

    Examples:
        >>> import jax, turnout as t
        >>> population = t.Population(count=4)
        >>> sampler = t.Systematic([0.25, 0.25, 0.5, 1.0], size=2).bind(population)
        >>> cohort = sampler.draw(None, jax.random.key(0), population)
        >>> int(cohort.size), 3 in cohort.ids.tolist()
        (2, True)
    """

    name: ClassVar[str] = "systematic"

    def select(self, key, p, population):
        shuffle, start = jax.random.split(key)
        order = in_random_order(shuffle, p)
        ends = jnp.cumsum(p[order])
        ends = ends * (jnp.round(ends[-1]) / positive(ends[-1]))
        hits = jnp.floor(ends + jax.random.uniform(start, (), p.dtype))
        return jnp.zeros_like(p).at[order].set(jnp.diff(hits, prepend=0))
