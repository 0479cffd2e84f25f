"""Oort: guided selection of clients whose losses are high and who are fast. It is biased."""

from dataclasses import field, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from turnout.core.errors import UserError
from turnout.core.records import Count, NonNegative, Positive, Share, record, static
from turnout.core.tree import positive
from turnout.samplers.base import Sampler, as_numbers, check_size
from turnout.samplers.draw_by_draw import gumbel_scores
from turnout.samplers.in_double import in_double
from turnout.samplers.loss_biased import largest, rank

CLIP = 0.95
"""The quantile of the explored clients' utilities above which these are cut."""

CUTOFF = 0.95
"""The share of the lowest of the best utilities that a client needs to be exploited."""

STALENESS = 0.1
"""The factor of log R / L_i in the square of the bonus for clients that were drawn long ago."""


class Experience(NamedTuple):
    """What is known after R = `round` draws: n_i |f_i(x)| of each client's last reply [n], and the draw L_i of that reply [n].

    L_i = 0 stands for a client that never replied.
    """

    values: Float[Array, " n"]
    last: Int[Array, " n"]
    round: Int[Array, ""]


@record
class Oort(Sampler):
    """Oort: clients of high utility are exploited, others explored (Lai et al., 2021, Algorithm 1 and sections 4.2 to 4.4).

    At draw R the explored clients have the utility

    u_i = (min(v_i, v_95%) + sqrt(0.1 log R / L_i)) (T / t_i)^alpha, the last factor only where t_i > T,

    with v_i = n_i |f_i(x)| when client i last replied, in draw L_i. Of those with u_i >= 0.95 u_(e), the e-th highest,
    e = floor((1 - epsilon) K) are drawn one after the other with probabilities proportional to u_i. The other places are for
    clients that never replied, with probabilities proportional to 1 / t_i; epsilon = max(least, exploration decay^(R - 1)).
    Where one kind of client runs out, the other takes its places. Each reply carries f_i(x) as an additional scalar, which stands
    for the root of the mean square of the rows' losses. T is fixed, in the place of a pacer.

    The cohort has no known probabilities, so `average()` refuses it, and `mean()` favours clients of high loss and fast ones.

    Args:
        size: K, the number of clients in a cohort.
        seconds: t_i > 0, the seconds of a round of each client [n]; None: all are equally fast.
        preferred: T > 0, the seconds that a round is to take; needs `seconds`.
        penalty: alpha >= 0.
        exploration: epsilon in [0, 1] at the first draw.
        decay: Factor of epsilon from draw to draw, in [0, 1].
        least: The smallest epsilon, in [0, 1].
        sizes: Set by `fit`: n_i [n].

    Raises:
        UserError: On fitting, if K > n, or `seconds` do not fit; on binding, since the row counts need a problem.

    Examples:
        >>> import jax, turnout as t
        >>> problem = t.Quadratic.random(clients=6, dimension=3, seed=0)
        >>> sampler = t.Oort(2).fit(problem)
        >>> cohort = sampler.draw(sampler.start(problem.population), jax.random.key(0), problem.population)
        >>> int(cohort.size), cohort.biased
        (2, True)
    """

    size: Count = static()
    seconds: list[Positive] | np.ndarray | None = None
    preferred: Positive | None = None
    penalty: NonNegative = 2.0
    exploration: Share = 0.9
    decay: Share = 0.98
    least: Share = 0.2
    sizes: Any = field(default=None, repr=False, kw_only=True)

    learns_from_feedback = True
    feedback_kind = "loss"
    supports_availability = True
    weights: ClassVar[str] = "lambda_i / sum of those drawn"

    def fit(self, problem):
        return replace(self, sizes=problem.sizes.astype(np.float64)).bind(problem.population)

    def bind(self, population):
        check_size(self.size, population, "oort")
        if self.sizes is None:
            raise UserError("sampler 'oort' needs the clients' numbers of rows: fit it to a problem")
        if self.preferred is not None and self.seconds is None:
            raise UserError("sampler 'oort' has preferred seconds of a round, but not those of the clients: give seconds")
        return self if self.seconds is None else replace(self, seconds=checked_seconds(self.seconds, population.count))

    def start(self, population):
        zeros = jnp.zeros(population.count, jnp.result_type(float))
        return Experience(zeros, jnp.zeros(population.count, "int32"), jnp.zeros((), "int32"))

    def advance(self, state, key):
        return state._replace(round=state.round + 1)

    def observe(self, state, cohort, feedback):
        places = jnp.where(cohort.active, cohort.ids, state.values.size)
        values = jnp.asarray(self.sizes, feedback.dtype)[cohort.ids] * jnp.abs(feedback)
        # A client whose loss is not finite is not worth another visit.
        values = jnp.where(jnp.isfinite(values), values, 0).astype(state.values.dtype)
        return state._replace(
            values=state.values.at[places].set(values, mode="drop"), last=state.last.at[places].set(state.round, mode="drop")
        )

    @in_double
    def draw(self, state, key, population):
        explored, unexplored = population.present & (state.last > 0), population.present & (state.last == 0)
        utility = self.utilities(state, explored)
        e = self._exploited(state, jnp.sum(explored, dtype=utility.dtype), jnp.sum(unexplored, dtype=utility.dtype))
        keys = jax.random.split(key, 3)
        ties = jax.random.uniform(keys[0], utility.shape, utility.dtype)
        best = rank(jnp.where(explored, -utility, jnp.inf), ties)
        lowest = jnp.min(utility, where=explored & (best < e), initial=jnp.inf)
        # Clients without any utility are drawn where there are no better ones.
        least = jnp.maximum(utility, jnp.finfo(utility.dtype).tiny)
        score = gumbel_scores(keys[1], jnp.where(explored & (utility >= CUTOFF * lowest), least, 0))
        chosen = explored & (rank(jnp.where(explored, -score, jnp.inf), ties) < e)
        speed = jnp.ones_like(utility) if self.seconds is None else 1 / jnp.asarray(self.seconds, utility.dtype)
        others = gumbel_scores(keys[2], jnp.where(unexplored, speed, 0))
        return largest(jnp.where(chosen, jnp.inf, others), self.size, population)

    def utilities(self, state: Experience, explored: Bool[Array, " n"]) -> Float[Array, " n"]:
        """Return u_i of the explored clients at the next draw, 0 for the others.

        Args:
            state: State of the sampler.
            explored: Which clients are available and have replied [n].
        """
        dtype = state.values.dtype
        count = jnp.sum(explored, dtype="int32")
        ascending = jnp.sort(jnp.where(explored, state.values, jnp.inf))
        top = ascending[jnp.clip((CLIP * count.astype(dtype)).astype("int32"), 0, jnp.maximum(count - 1, 0))]
        bonus = jnp.sqrt(STALENESS * jnp.log((state.round + 1).astype(dtype)) / positive(state.last.astype(dtype)))
        utility = jnp.minimum(state.values, top) + bonus
        if self.preferred is not None:
            slower = jnp.minimum(1, jnp.asarray(self.preferred, dtype) / jnp.asarray(self.seconds, dtype))
            utility = utility * slower ** jnp.asarray(self.penalty, dtype)
        return jnp.where(explored, utility, 0)

    def _exploited(self, state: Experience, explored: Float[Array, ""], unexplored: Float[Array, ""]) -> Float[Array, ""]:
        """Return e, which leaves no place empty while there are clients."""
        exploration, decay, least = (jnp.asarray(a, explored.dtype) for a in (self.exploration, self.decay, self.least))
        epsilon = jnp.maximum(least, exploration * decay ** state.round.astype(explored.dtype))
        # The added number absorbs rounding, so that 0.8 times 10 gives 8.
        wanted = jnp.floor((1 - epsilon) * self.size + 1e-6)
        return jnp.minimum(explored, jnp.maximum(wanted, self.size - unexplored))


def checked_seconds(seconds: Any, count: int) -> Float[np.ndarray, " n"]:
    """Return t_i as an array of `count` finite numbers, or raise `UserError`.

    Args:
        seconds: What the user gave.
        count: Number of clients.
    """
    times = as_numbers(seconds, "oort", "seconds").astype(float)
    if times.shape != (count,):
        raise UserError(f"sampler 'oort' needs {count} seconds, one for each client, but got {times.size}")
    if not np.all(np.isfinite(times)):
        raise UserError("sampler 'oort' needs finite seconds: correct them")
    return times
