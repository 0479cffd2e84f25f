"""Without replacement over an epoch: shuffled cohorts and shuffled strata."""

from dataclasses import field, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt

from turnout.core.cohort import Cohort
from turnout.core.permutation import permute
from turnout.core.records import Count, record, static
from turnout.samplers.base import Sampler, needs_at_most
from turnout.samplers.strata import partition


class Shuffled(Sampler):
    """Draws that follow one random order of the clients an epoch.

    The state is the key of the first draw, from which all orders follow, and the number t of draws so far: a draw costs O(m).
    Over the random order of an epoch every draw has the law of one without the shuffling, so that `average` is unbiased; given
    the draws before it in the epoch it is not, since who was drawn will not be drawn again.
    """

    replacement: ClassVar[str] = "without, over an epoch"
    weights: ClassVar[str] = "lambda_i / p_i: unbiased over an epoch's random order, rounds not independent"

    def start(self, population):
        return jnp.zeros_like(jax.random.key_data(jax.random.key(0))), jnp.zeros((), "int32")

    def advance(self, state, key):
        return self._base(state, key), state[1] + 1

    def _base(self, state, key) -> UInt[Array, " words"]:
        base, t = state
        return jnp.where(t == 0, jax.random.key_data(key), base)

    def _now(self, state, key) -> tuple[Any, Any]:
        """Return the base key and t."""
        return jax.random.wrap_key_data(self._base(state, key)), state[1]


@record
class ShuffledNice(Shuffled):
    """Each epoch a fresh permutation of the n clients is cut into floor(n / m) disjoint cohorts of m = `size`: p_i = m / n.

    Where m does not divide n, an epoch leaves n mod m clients out, others each time.
    """

    size: Count = static()

    def bind(self, population):
        needs_at_most(self.size, population, "shuffled-nice")
        return self

    def draw(self, state, key, population):
        base, t = self._now(state, key)
        cohorts = population.count // self.size
        places = t % cohorts * self.size + jnp.arange(self.size, dtype="int32")
        ids = permute(jax.random.fold_in(base, t // cohorts), places, population.count)
        return Cohort.of(ids, self.size / population.count, population, selection="random")


@record
class ShuffledStratified(Shuffled):
    """One client from each stratum C_j, all of the stratum in turn, in a fresh random order every |C_j| draws: p_i = 1 / |C_j|.

    `strata` [n] numbers each client's stratum from 0; None takes those of the split.
    """

    strata: list[int] | np.ndarray | None = None
    order: Any = field(default=None, repr=False)
    starts: Any = field(default=None, repr=False)

    def bind(self, population):
        order, starts = partition(self.strata, population, "shuffled-stratified")
        return replace(self, strata=None, order=order, starts=starts)

    def draw(self, state, key, population):
        base, t = self._now(state, key)
        order, starts = jnp.asarray(self.order), jnp.asarray(self.starts)
        sizes = jnp.diff(starts)
        epochs = jax.vmap(lambda epoch: jax.random.fold_in(base, epoch))(t // sizes)
        keys = jax.vmap(jax.random.fold_in)(epochs, jnp.arange(sizes.size, dtype="int32"))
        ids = order[starts[:-1] + permute(keys, t % sizes, sizes)]
        return Cohort.of(ids, 1 / sizes.astype(float), population, selection="arbitrary")
