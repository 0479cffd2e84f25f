"""A block of clients at a time."""

from dataclasses import field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from turnout.core.cohort import Cohort
from turnout.core.records import Fraction, record, static
from turnout.samplers.base import Sampler, probabilities
from turnout.samplers.strata import partition


@record
class Block(Sampler):
    """All of block C_j with probability q_j: p_i = q_j for i in C_j (block sampling of Cohort Squeeze, section 2.3).

    `blocks` [n] numbers each client's block from 0; None takes the strata of the split. q = `probability`; None is uniform.
    """

    blocks: list[int] | np.ndarray | None = None
    probability: list[Fraction] | np.ndarray | None = None
    order: Any = field(default=None, repr=False)
    starts: Any = field(default=None, repr=False)
    places: int = static(default=0, repr=False)

    def bind(self, population):
        order, starts = partition(self.blocks, population, "block", "block", "blocks")
        sizes = np.diff(starts)
        q = probabilities(self.probability, sizes.size, "block", "block")
        return replace(self, blocks=None, probability=q, order=order, starts=starts, places=int(sizes.max()))

    def draw(self, state, key, population):
        q, order, starts = (jnp.asarray(leaf) for leaf in (self.probability, self.order, self.starts))
        j = jax.random.choice(key, q.size, p=q)
        places = starts[j] + jnp.arange(self.places, dtype="int32")
        ids = order[jnp.minimum(places, population.count - 1)]
        return Cohort.of(ids, q[j], population, selection="arbitrary", active=places < starts[j + 1])
