"""One block of clients per round."""

from dataclasses import field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from turnout.core.cohort import Cohort
from turnout.core.records import Count, Fraction, record, static
from turnout.samplers.base import Sampler, as_distribution
from turnout.samplers.in_double import in_double
from turnout.samplers.strata import partition


@record
class Block(Sampler):
    """All clients of one block C_j, drawn with probability q_j: p_i = q_j for i in C_j (Cohort Squeeze, Yi et al., 2024, 2.3).

    With `size` = C, C uniform clients of that block, or all where it has no more: p_i = q_j min(1, C / |C_j|) (Algorithm 4).

    Args:
        blocks: Number of each client's block [n], from 0, without gaps; None takes the strata of the split.
        probability: q, positive, one for each block, with sum 1; None is uniform.
        size: The most clients of a cohort; None takes the whole block.
        order: Set by `bind`: the clients sorted by block.
        starts: Set by `bind`: where each block starts in `order`.
        places: Set by `bind`: the size of the largest cohort.
        largest: Set by `bind`: the size of the largest block.

    Raises:
        UserError: On binding, if the blocks or their probabilities do not fit.

    Examples:
        >>> import jax, turnout as t
        >>> population = t.Population(count=4)
        >>> cohort = t.Block([0, 0, 1, 1]).bind(population).draw(None, jax.random.key(0), population)
        >>> cohort.ids.tolist() in ([0, 1], [2, 3]), cohort.expansion.tolist()
        (True, [2.0, 2.0])
    """

    blocks: list[int] | np.ndarray | None = None
    probability: list[Fraction] | np.ndarray | None = None
    size: Count | None = static(default=None, kw_only=True)
    order: Any = field(default=None, repr=False, kw_only=True)
    starts: Any = field(default=None, repr=False, kw_only=True)
    places: int = static(default=0, repr=False, kw_only=True)
    largest: int = static(default=0, repr=False, kw_only=True)

    def bind(self, population):
        order, starts = partition(self.blocks, population, "block", "block", "blocks")
        sizes = np.diff(starts)
        q = as_distribution(self.probability, sizes.size, "block", "block")
        largest = int(sizes.max())
        places = min(largest, self.size or population.count)
        return replace(self, blocks=None, probability=q, order=order, starts=starts, places=places, largest=largest)

    @in_double
    def draw(self, state, key, population):
        q, order, starts = jnp.asarray(self.probability, float), jnp.asarray(self.order), jnp.asarray(self.starts)
        j = jax.random.choice(key, q.size, p=q)
        places, members = jnp.arange(self.places, dtype=starts.dtype), starts[j + 1] - starts[j]
        active, p = places < members, q[j]
        if self.size is not None:
            places = _some(jax.random.fold_in(key, 1), places, members, self.largest)
            p = p * jnp.minimum(1, self.size / jnp.asarray(members, float))
        # Places beyond the last client, where JAX reads the last one, are empty.
        return Cohort.of(order[starts[j] + places], p, population, selection="arbitrary", active=active)


def _some(key, places: Int[Array, " m"], members: Int[Array, ""], most: int) -> Int[Array, " m"]:
    """Return as many different uniform places below `members` as there are, and others beyond them.

    Args:
        key: Random key.
        places: The places 0, 1, ..., m - 1 of a cohort.
        members: Number of clients of the block.
        most: Number of clients of the largest block.
    """
    beyond = jnp.arange(most, dtype=members.dtype) >= members
    return jnp.argsort(jnp.where(beyond, 1, jax.random.uniform(key, (most,), float)))[places].astype(places.dtype)
