"""Avare: the last observed feedback, over a floor that sinks."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from turnout.core.records import Positive, record
from turnout.samplers.probabilities.base import Probability
from turnout.samplers.probabilities.scaling import estimated, known, latest
from turnout.samplers.probabilities.waterfilling import bounded


class Observed(NamedTuple):
    """The last pi_i [n], below 0 for those never seen; G, which is 0 before it is known; the number of cohorts observed."""

    last: Float[Array, " n"]
    bound: Float[Array, ""]
    time: Int[Array, ""]


@record
class Avare(Probability):
    """q minimises sum_i g_i^2 / q_i over sum q = 1, q_i >= eps_t, with g_i the last observed pi_i (El Hanchi and Stephens, 2020).

    g_i = G before client i is seen, G = `bound`, by default the mean feedback of the first cohort. In the t-th draw
    eps_t = p_min + (1/n - p_min) / t with p_min = 1 / (5n), so that it starts from equal q. Designs that draw a client at most
    once take p with sum p = K, K eps_t <= p_i <= 1.
    """

    bound: Positive | None = None

    learns_from_feedback = True

    def start(self, population):
        return Observed(jnp.full(population.count, -1, jnp.result_type(float)), known(self.bound), jnp.zeros((), "int32"))

    def scores(self, state, size, population):
        return jnp.where(state.last < 0, state.bound, state.last)

    def floor(self, state: Observed, population) -> Float[Array, ""]:
        """Return eps_t."""
        least = 1 / (5 * population.count)
        return least + (1 / population.count - least) / (state.time + 1).astype(state.last.dtype)

    def inclusion_probabilities(self, state, size, population):
        size = jnp.asarray(size, state.last.dtype)
        return bounded(self.scores(state, size, population), size, size * self.floor(state, population), population.available)

    def draw_probabilities(self, state, size, population):
        one = jnp.ones((), state.last.dtype)
        return bounded(self.scores(state, size, population), one, self.floor(state, population), population.available)

    def observe(self, state, cohort, feedback, size):
        return Observed(
            latest(state.last, cohort, feedback), estimated(state.bound, cohort, feedback, 1), state.time + jnp.ones((), "int32")
        )
