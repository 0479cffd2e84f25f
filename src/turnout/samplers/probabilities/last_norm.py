"""Last norm: what each client replied when it was last seen."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.records import Share, record
from turnout.core.tree import positive
from turnout.samplers.probabilities.base import Probability
from turnout.samplers.probabilities.scaling import latest
from turnout.samplers.probabilities.waterfilling import count


class LastSeen(NamedTuple):
    """The last pi_i [n], below 0 for those never seen, and g0, which is 0 before it is known."""

    last: Float[Array, " n"]
    typical: Float[Array, ""]


@record
class LastNorm(Probability):
    """a_i = lambda_i |r_i| as client i replied when last seen, lambda_i g0 before; mixed by theta = `mixing`, then capped.

    Mixing first leaves clients with p_i = 1 where they are, and every p_i >= theta K / n. g0 is the mean |r_i| of the first
    cohort, and then g0 <- 0.9 g0 + 0.1 times the cohort's mean |r_i| with weights lambda_i expansion_i. The first draw has
    a_i = lambda_i.
    """

    mixing: Share = 0.05

    learns_from_feedback = True
    mixes_before_cap = True

    def start(self, population):
        dtype = jnp.result_type(float)
        return LastSeen(jnp.full(population.count, -1, dtype), jnp.zeros((), dtype))

    def theta(self, size, population):
        return jnp.asarray(self.mixing, jnp.result_type(float))

    def scores(self, state, size, population):
        new = population.shares * positive(state.typical)
        return jnp.where(state.last < 0, new, state.last)

    def observe(self, state, cohort, feedback, size):
        heard = cohort.active & (cohort.share > 0)
        norms = jnp.where(heard, feedback / positive(cohort.share), 0)
        weights = jnp.where(heard, cohort.weight, 0)
        first = jnp.sum(norms / positive(count(heard, norms.dtype)))
        mean = jnp.sum(norms * (weights / positive(jnp.sum(weights))))
        later = jnp.where(jnp.any(heard), 0.9 * state.typical + 0.1 * mean, state.typical)
        return LastSeen(latest(state.last, cohort, feedback), jnp.where(state.typical > 0, later, first))
