"""Optimal client sampling: probabilities from the norms of the replies to come."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from turnout.core.records import record, static
from turnout.core.tree import positive
from turnout.samplers.probabilities.base import Probability


class ReportedNorms(NamedTuple):
    """pi_i = lambda_i |r_i| of the coming exchange [n], and which clients reported it."""

    norms: Float[Array, " n"]
    reported: Bool[Array, " n"]


@record
class Optimal(Probability):
    """a_i = lambda_i |r_i| of the coming exchange, which all available clients report before the draw (Chen et al., 2022, (7)).

    Among independent designs with sum p = K it has the least variance. It costs one scalar up from every available client, the
    message down to each, and their local work. A client that does not answer has a_i = lambda_i sum_j pi_j / sum_j lambda_j, the
    sums being over the clients that do.

    Args:
        free: Whether to be an oracle: no report is lost and the ledger counts none.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> population, rule = t.Population(count=3), t.Optimal()
        >>> norms, answered = jnp.array([0.5, 0.25, 0.25]), jnp.ones(3, bool)
        >>> state = rule.observe_consulted(rule.start(population), norms, answered)
        >>> rule.draw_probabilities(state, 1, population).tolist()
        [0.5, 0.25, 0.25]
    """

    free: bool = static(default=False)

    consults_before_draw = True

    @property
    def is_charged(self) -> bool:
        return not self.free

    def start(self, population):
        return ReportedNorms(jnp.zeros(population.count, jnp.result_type(float)), jnp.zeros(population.count, bool))

    def observe_consulted(self, state, norms, answered):
        reported = answered & jnp.isfinite(norms)
        return ReportedNorms(jnp.where(reported, norms, 0).astype(state.norms.dtype), reported)

    def scores(self, state, size, population):
        share = population.shares
        reported_share = jnp.sum(jnp.where(state.reported, share, 0))
        mean = jnp.where(jnp.any(state.norms > 0), jnp.sum(state.norms) / positive(reported_share), 1)
        return jnp.where(state.reported, state.norms, share * mean)
