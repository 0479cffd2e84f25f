"""Sampling without replacement over an epoch (random reshuffling), of cohorts and of strata."""

from dataclasses import field, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt

from turnout.core.cohort import Cohort
from turnout.core.permutation import permute
from turnout.core.records import Count, record, static
from turnout.samplers.base import Sampler, check_size
from turnout.samplers.in_double import in_double
from turnout.samplers.strata import partition


class Shuffled(Sampler):
    """Base class: the draws of an epoch follow one random order of the clients.

    The state is the key of the first draw, which determines all orders, and the number t of draws so far; a draw costs O(m).
    Over the random order, every draw has the same distribution as a draw without shuffling, so `average` is unbiased. Given the
    earlier draws of the epoch it is not, because drawn clients are not drawn again.
    """

    replacement: ClassVar[str] = "without, over an epoch"
    weights: ClassVar[str] = "lambda_i / p_i: unbiased over an epoch's random order, rounds not independent"

    def start(self, population):
        return jnp.zeros_like(jax.random.key_data(jax.random.key(0))), jnp.zeros((), "int32")

    def advance(self, state, key):
        return self._base_key_data(state, key), state[1] + 1

    def _base_key_data(self, state, key) -> UInt[Array, " words"]:
        base, t = state
        return jnp.where(t == 0, jax.random.key_data(key), base)

    def _position(self, state, key) -> tuple[Any, Any]:
        """Return the base key and t."""
        return jax.random.wrap_key_data(self._base_key_data(state, key)), state[1]


@record
class ShuffledNice(Shuffled):
    """Disjoint cohorts of m clients over each epoch, a new random permutation cut into floor(n / m) parts: p_i = m / n.

    An epoch leaves out n mod m clients, different ones each time.

    Args:
        size: m, the number of clients in a cohort.

    Raises:
        UserError: On binding, if there are fewer than m clients.

    Examples:
        >>> import jax, turnout as t
        >>> population, sampler = t.Population(count=4), t.ShuffledNice(2)
        >>> state, ids = sampler.start(population), []
        >>> for key in jax.random.split(jax.random.key(0), 2):
        ...     ids += sampler.draw(state, key, population).ids.tolist()
        ...     state = sampler.advance(state, key)
        >>> sorted(ids)
        [0, 1, 2, 3]
    """

    size: Count = static()

    def bind(self, population):
        check_size(self.size, population, "shuffled-nice")
        return self

    def draw(self, state, key, population):
        base, t = self._position(state, key)
        cohorts = population.count // self.size
        places = t % cohorts * self.size + jnp.arange(self.size, dtype="int32")
        ids = permute(jax.random.fold_in(base, t // cohorts), places, population.count)
        return Cohort.of(ids, self.size / population.count, population, selection="random")


@record
class ShuffledStratified(Shuffled):
    """One client from each stratum C_j, in a new random order of the stratum every |C_j| draws: p_i = 1 / |C_j|.

    Args:
        strata: Number of each client's stratum [n], from 0, without gaps; None takes those of the split.
        order: Set by `bind`: the clients sorted by stratum.
        starts: Set by `bind`: where each stratum starts in `order`.

    Raises:
        UserError: On binding, if the strata do not fit.

    Examples:
        >>> import jax, turnout as t
        >>> population = t.Population(count=4)
        >>> sampler = t.ShuffledStratified([0, 0, 1, 1]).bind(population)
        >>> sampler.draw(sampler.start(population), jax.random.key(0), population).expansion.tolist()
        [2.0, 2.0]
    """

    strata: list[int] | np.ndarray | None = None
    order: Any = field(default=None, repr=False, kw_only=True)
    starts: Any = field(default=None, repr=False, kw_only=True)

    def bind(self, population):
        order, starts = partition(self.strata, population, "shuffled-stratified")
        return replace(self, strata=None, order=order, starts=starts)

    @in_double
    def draw(self, state, key, population):
        base, t = self._position(state, key)
        order, starts = jnp.asarray(self.order), jnp.asarray(self.starts)
        sizes = jnp.diff(starts)
        epochs = jax.vmap(lambda epoch: jax.random.fold_in(base, epoch))(t // sizes)
        keys = jax.vmap(jax.random.fold_in)(epochs, jnp.arange(sizes.size, dtype="int32"))
        ids = order[starts[:-1] + permute(keys, t % sizes, sizes)]
        return Cohort.of(ids, 1 / sizes.astype(float), population, selection="arbitrary")
