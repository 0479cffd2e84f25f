"""Systematic sampling in random order."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from turnout.core.records import record
from turnout.core.tree import positive
from turnout.samplers.fixed_size import FixedSize, in_random_order


@record
class Systematic(FixedSize):
    """In random order the clients lie end to end on a line, client i with length p_i; those hit by u, u + 1, ... are drawn.

    u is uniform in [0, 1). The inclusion probabilities are exact (Madow, 1949); the variance is Hajek's, which is approximate.
    """

    name: ClassVar[str] = "systematic"

    def select(self, key, p, population):
        shuffle, start = jax.random.split(key)
        order = in_random_order(shuffle, p)
        ends = jnp.cumsum(p[order])
        ends = ends * (jnp.round(ends[-1]) / positive(ends[-1]))
        hits = jnp.floor(ends + jax.random.uniform(start, (), p.dtype))
        return jnp.zeros_like(p).at[order].set(jnp.diff(hits, prepend=0))
