"""K draws with replacement."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from turnout.core.cohort import Cohort
from turnout.core.records import record
from turnout.samplers.successive import ByChances, one_draw


@record
class WithReplacement(ByChances):
    """K independent draws of one client, i with chance q_i; whoever is drawn k times takes one place and counts for k / (K q_i)
    (K-Vib's RSP, section 2; Hansen and Hurwitz, 1943).

    Its variance is (sum_i |v_i|^2 / q_i - |sum_i v_i|^2) / K.
    """

    name: ClassVar[str] = "replacement"
    replacement: ClassVar[str] = "with"
    weights: ClassVar[str] = "lambda_i times / (K q_i)"

    def draw(self, state, key, population):
        q = self.draw_probabilities(state, population)
        ends = jnp.cumsum(q)
        points = jax.random.uniform(key, (self.size,), q.dtype) * ends[-1]
        # The first client whose stretch of the line ends beyond the point has q_i > 0.
        drawn = jnp.minimum(jnp.searchsorted(ends, points, side="right"), jnp.argmax(ends).astype("int32"))
        ids, times = jnp.unique(drawn, size=self.size, fill_value=0, return_counts=True)
        active = (times > 0) & (ends[-1] > 0)
        mean = jnp.where(active, self.size * q[ids], 1)
        return Cohort.of(ids, mean, population, selection="arbitrary", active=active, expansion=times.astype(q.dtype) / mean)

    def expected_draws(self, state, population):
        return self.size * self.draw_probabilities(state, population)

    def variance(self, state, population, vectors):
        q = self.draw_probabilities(state, population).astype(vectors.dtype)
        return one_draw(q, jnp.ones_like(q), vectors) / self.size
