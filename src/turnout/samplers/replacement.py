"""K draws with replacement."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from turnout.core.cohort import Cohort
from turnout.core.records import record
from turnout.samplers.draw_by_draw import DrawByDraw, one_draw_variance
from turnout.samplers.in_double import in_double


@record
class WithReplacement(DrawByDraw):
    """K independent draws of one client, i with probability q_i (Hansen and Hurwitz, 1943; RSP in K-Vib, section 2).

    A client that is drawn k times takes one place and counts k / (K q_i). The variance of the sum of v_i is
    (sum_i |v_i|^2 / q_i - |sum_i v_i|^2) / K.

    Args:
        probability: A rule for q_i, or q [n], positive, with sum 1; None takes q_i = 1 / n.
        size: K, the number of draws; a cohort has at most K clients.

    Examples:
        >>> import jax, turnout as t
        >>> population = t.Population(count=4)
        >>> sampler = t.WithReplacement([0.5, 0.25, 0.125, 0.125], size=2).bind(population)
        >>> sampler.expected_draws(None, population).tolist()
        [1.0, 0.5, 0.25, 0.25]
        >>> int(sampler.draw(None, jax.random.key(0), population).size) <= 2
        True
    """

    name: ClassVar[str] = "replacement"
    replacement: ClassVar[str] = "with"
    weights: ClassVar[str] = "lambda_i times / (K q_i)"

    @in_double
    def draw(self, state, key, population):
        q = self.draw_probabilities(state, population)
        ends = jnp.cumsum(q)
        points = jax.random.uniform(key, (self.size,), q.dtype) * ends[-1]
        # The first client whose interval ends beyond the point has q_i > 0.
        drawn = jnp.minimum(jnp.searchsorted(ends, points, side="right"), jnp.sum(ends < ends[-1], dtype="int32"))
        ids, times = jnp.unique(drawn, size=self.size, fill_value=0, return_counts=True)
        active = (times > 0) & (ends[-1] > 0)
        mean = jnp.where(active, self.size * q[ids], 1)
        return Cohort.of(ids, mean, population, selection="arbitrary", active=active, expansion=times.astype(q.dtype) / mean)

    def expected_draws(self, state, population):
        return self.size * self.draw_probabilities(state, population)

    def variance(self, state, population, vectors):
        q = self.draw_probabilities(state, population).astype(vectors.dtype)
        return one_draw_variance(q, jnp.ones_like(q), vectors) / self.size
