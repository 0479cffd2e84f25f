"""Approximate optimal client sampling: the probabilities of `Optimal` from sums of numbers alone."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.messages import Each
from turnout.core.records import Count, record
from turnout.core.tree import positive
from turnout.samplers.base import everyone_available
from turnout.samplers.probabilities.base import Probability
from turnout.samplers.probabilities.optimal import Optimal, ReportedNorms
from turnout.samplers.probabilities.waterfilling import normalised


class Calibration(NamedTuple):
    """What clients answered, and `scale` = C_1 C_2 ... C_j."""

    answers: ReportedNorms
    scale: Float[Array, ""]


@record
class Aocs(Probability):
    """p_i = min(1, K pi_i / sum_j pi_j), scaled up by sums of the clients' own p_i (Chen et al., 2022, Algorithm 2, AOCS).

    p_i <- min(1, C p_i), C = (K - number of p_j = 1) / sum of the p_j < 1, up to `iterations` times, or until C = 1.

    pi_i = lambda_i |r_i| is that of `Optimal`, whose p is the limit, from below: sum p <= K. In the paper clients compute their
    p_i themselves, and the server learns sums alone. Each iteration costs one scalar down to every available client and two up.
    Averages are unbiased for any number of iterations, since each reply is divided by its own p_i.

    Draws with replacement take q_i = pi_i / sum_j pi_j.

    Args:
        iterations: The most iterations before a draw, 4 in the paper's program.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=6, dimension=3, seed=0)
        >>> trace = t.run(t.MbGd(t.Independent(t.Aocs(), size=2.0), lr=0.01), problem, rounds=1)
        >>> trace.ledger.totals()["draws_arbitrary"] > 1
        True
    """

    iterations: Count = 4

    consults_before_draw = True

    def start(self, population):
        return Calibration(Optimal().start(population), jnp.ones((), jnp.result_type(float)))

    def observe_consulted(self, state, norms, answered):
        return Calibration(Optimal().observe_consulted(state.answers, norms, answered), jnp.ones_like(state.scale))

    def scores(self, state, size, population):
        return Optimal().scores(state.answers, size, population)

    def inclusion_probabilities(self, state, size, population):
        q = normalised(self.scores(state, size, population), population.available)
        return jnp.minimum(1, state.scale * (jnp.asarray(size, q.dtype) * q))

    def calibrated(self, state, ask, size, population):
        cohort = everyone_available(population)

        def rescale(carry):
            state, _ = carry
            p = self.inclusion_probabilities(state, size, population)
            replies = ask(cohort, self.below_one, Each(p[cohort.ids]))
            below, mass = (jnp.sum(jnp.where(replies.answered, number, 0)) for number in replies.values)
            certain = jnp.sum(replies.answered, dtype=p.dtype) - below
            # Below 1 only by rounding, or where replies are lost.
            factor = jnp.maximum(1, jnp.where(mass > 0, (jnp.asarray(size, p.dtype) - certain) / positive(mass), 1))
            return state._replace(scale=state.scale * factor), factor

        start = state, jnp.full((), jnp.inf, state.scale.dtype)
        one = 1 + jnp.sqrt(jnp.finfo(state.scale.dtype).eps)
        return ask.loop(self.iterations, rescale, start, until=lambda carry: carry[1] <= one)[0]

    @on_client
    def below_one(self, client, p):
        """(1, p_i) where p_i < 1, else (0, 0)."""
        below = (p < 1).astype(p.dtype)
        return Done((below, below * p), queries=0)
