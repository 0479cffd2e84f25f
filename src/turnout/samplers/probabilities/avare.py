"""Avare: the last feedback of each client, with a lower bound on the probabilities that decays."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from turnout.core.records import Positive, record
from turnout.samplers.probabilities.base import Probability
from turnout.samplers.probabilities.scaling import bound_or_zero, estimated, latest
from turnout.samplers.probabilities.waterfilling import bounded


class LastFeedback(NamedTuple):
    """The last pi_i [n], negative if client i never replied; G, 0 while unknown; the number of cohorts observed."""

    last: Float[Array, " n"]
    bound: Float[Array, ""]
    time: Int[Array, ""]


@record
class Avare(Probability):
    """Avare: q minimises sum_i g_i^2 / q_i over sum q = 1, q_i >= eps_t, g_i the last pi_i (El Hanchi and Stephens, 2020).

    g_i = G before the first reply of client i. In the t-th draw eps_t = p_min + (1/n - p_min) / t with p_min = 1 / (5n), so the
    first q is uniform. Designs that draw a client at most once take p with sum p = K and K eps_t <= p_i <= 1.

    Args:
        bound: G, the size of pi_i; None takes the mean feedback of the first cohort.

    Examples:
        >>> import turnout as t
        >>> population, rule = t.Population(count=4), t.Avare()
        >>> rule.inclusion_probabilities(rule.start(population), 2, population).tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    bound: Positive | None = None

    learns_from_feedback = True

    def start(self, population):
        return LastFeedback(
            jnp.full(population.count, -1, jnp.result_type(float)), bound_or_zero(self.bound), jnp.zeros((), "int32")
        )

    def scores(self, state, size, population):
        return jnp.where(state.last < 0, state.bound, state.last)

    def floor(self, state: LastFeedback, population) -> Float[Array, ""]:
        """Return eps_t.

        Args:
            state: State of the sampler.
            population: The clients, their weights, and who is available.
        """
        least = 1 / (5 * population.count)
        return least + (1 / population.count - least) / (state.time + 1).astype(state.last.dtype)

    def inclusion_probabilities(self, state, size, population):
        size = jnp.asarray(size, state.last.dtype)
        return bounded(self.scores(state, size, population), size, size * self.floor(state, population), population.available)

    def draw_probabilities(self, state, size, population):
        one = jnp.ones((), state.last.dtype)
        return bounded(self.scores(state, size, population), one, self.floor(state, population), population.available)

    def observe(self, state, cohort, feedback, size):
        return LastFeedback(
            latest(state.last, cohort, feedback), estimated(state.bound, cohort, feedback, 1), state.time + jnp.ones((), "int32")
        )
