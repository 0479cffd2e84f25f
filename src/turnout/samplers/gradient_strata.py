"""Stratified sampling with strata that are made from the clients' gradients during a run."""

from dataclasses import field, replace

import jax
import jax.numpy as jnp
import numpy as np

from turnout.core.records import Count, record, static
from turnout.samplers.by_gradients import ByGradients, on_host, with_lost_ones
from turnout.samplers.clustering import optimal_strata
from turnout.samplers.full import Full
from turnout.samplers.strata import check_strata, draw_from_strata, sort_by_part


@record
class GradientStratified(ByGradients):
    """Stratified sampling with the strata that minimise its variance for the gradients lambda_i grad f_i(x) at the current x.

    Before round 1, and then every `every` rounds, all clients are asked for their gradient, which is charged as a full pass.
    `Stratified(by="gradients")` makes this sampler. The state is the clients sorted by stratum, and where each stratum starts.

    Args:
        clusters: Number of strata.
        size: Number of strata in a cohort; None takes all.
        every: Rounds between new strata; None makes them once, before round 1.
        everyone: Set by `bind`: the sampler of the full pass.

    Raises:
        UserError: On binding, if `size` exceeds `clusters`.

    Examples:
        >>> import turnout as t
        >>> algorithm = t.MbGd(t.Stratified(by="gradients", clusters=3), lr=0.01)
        >>> trace = t.run(algorithm, t.Quadratic.random(clients=6, dimension=3, seed=0), rounds=5)
        >>> trace.ledger.totals()["contacts"]  # 6 gradients, then 3 clients in each round
        21
    """

    clusters: Count = static()
    size: Count | None = static(default=None)
    every: Count | None = None
    everyone: Full = field(default=Full(), repr=False, kw_only=True)

    def bind(self, population):
        check_strata(self.size, self.clusters)
        return replace(self, everyone=Full(size=self.size or self.clusters).bind(population))

    def start(self, population):
        # Arbitrary strata until the first gradients arrive.
        numbers = np.arange(population.count) * self.clusters // population.count
        return jax.tree.map(jnp.asarray, sort_by_part(numbers))

    def learned(self, state, vectors, answered, shares):
        weighted = with_lost_ones(vectors * shares[:, None], answered)
        return on_host(lambda own: sort_by_part(optimal_strata(own.astype(float), self.clusters)), state, weighted)

    def draw(self, state, key, population):
        return draw_from_strata(key, *state, self.size, population)
