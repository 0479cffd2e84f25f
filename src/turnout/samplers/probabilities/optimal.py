"""The best probabilities there are: those that know what everyone would reply."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from turnout.core.records import record, static
from turnout.core.tree import positive
from turnout.samplers.probabilities.base import Probability


class Previewed(NamedTuple):
    """pi_i = lambda_i |r_i| of the coming exchange [n], and who told it."""

    norms: Float[Array, " n"]
    known: Bool[Array, " n"]


@record
class Optimal(Probability):
    """a_i = lambda_i |r_i| of the coming exchange itself, which every available client is asked for before the draw.

    Optimal client sampling (Chen et al., 2022, equation (7)): of all independent draws with sum p = K it has the least
    variance, for one scalar up from everyone available, the message down to each, and their local work. With `free` it is an
    oracle: nothing is lost and the ledger counts nothing. Who did not answer gets lambda_i sum_j pi_j / sum_j lambda_j over those
    who did.
    """

    free: bool = static(default=False)

    consults_before_draw = True

    @property
    def is_charged(self) -> bool:
        return not self.free

    def start(self, population):
        return Previewed(jnp.zeros(population.count, jnp.result_type(float)), jnp.zeros(population.count, bool))

    def observe_consulted(self, state, norms, answered):
        known = answered & jnp.isfinite(norms)
        return Previewed(jnp.where(known, norms, 0).astype(state.norms.dtype), known)

    def scores(self, state, size, population):
        share = population.shares
        heard = jnp.sum(jnp.where(state.known, share, 0))
        mean = jnp.where(jnp.any(state.norms > 0), jnp.sum(state.norms) / positive(heard), 1)
        return jnp.where(state.known, state.norms, share * mean)
