"""Probabilities for residuals of control variates, which grow as the model moves away from a client's last visit."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from turnout.core.errors import UserError
from turnout.core.records import Count, Share, record, static
from turnout.core.tree import positive
from turnout.samplers.probabilities.base import Probability

LOCAL = 0.3
"""Mean squared steps added to D_i: local noise leaves residuals even if the model does not move."""

PACE = 0.1
"""The weight of the new value in running means over rounds."""


class DriftState(NamedTuple):
    """The state of `Drift`; slopes and norms are 0 while unknown.

    Args:
        x: The last parameters [d].
        clock: C, the sum of squared steps.
        step: The running mean of squared steps.
        visit: C_i [n], -1 for clients never drawn.
        slope: s_i [n].
        pooled_slope: The slope of all clients.
        first_norm: g, the mean norm at first visits.
    """

    x: Float[Array, " d"]
    clock: Float[Array, ""]
    step: Float[Array, ""]
    visit: Float[Array, " n"]
    slope: Float[Array, " n"]
    pooled_slope: Float[Array, ""]
    first_norm: Float[Array, ""]


@record
class Drift(Probability):
    """a_i = lambda_i s_i sqrt(D_i), D_i = C - C_i + 0.3 (mean squared step): scores grow as the model moves.

    The rule is for residuals r_i = g_i - h_i with a memory h_i of the client's last update, as in `FedVarp`.
    C = sum_t |x^{t+1} - x^t|^2, and C_i is its value when client i was last drawn. s_i is a running geometric mean of
    |r_i| / sqrt(D_i), pooled over all clients until i is drawn a second time. Clients never drawn have a_i = lambda_i g, g being
    the running geometric mean of |r_i| at first visits. Scores are mixed with their mean and then capped: p_i >= theta K / n.

    Args:
        mixing: theta in [0, 1], the weight of the mean score.
        dimension: Set by `fit`: the number of parameters.

    Raises:
        UserError: On binding, since the number of parameters needs a problem.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=4, dimension=3, seed=0)
        >>> rule = t.Drift().fit(problem)
        >>> rule.inclusion_probabilities(rule.start(problem.population), 2, problem.population).tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    mixing: Share = 0.05
    dimension: Count | None = static(default=None, repr=False, kw_only=True)

    learns_from_feedback = True
    mixes_before_cap = True

    def fit(self, problem):
        x = jax.eval_shape(problem.start, jax.random.key(0))
        return replace(self, dimension=sum(leaf.size for leaf in jax.tree.leaves(x)))

    def bind(self, population):
        if self.dimension is None:
            raise UserError("probability 'drift' needs the number of parameters: fit it to a problem")
        return self

    def start(self, population):
        zero, zeros = jnp.zeros((), jnp.result_type(float)), jnp.zeros(population.count, jnp.result_type(float))
        return DriftState(jnp.zeros(self.dimension or 0, zero.dtype), zero, zero, zeros - 1, zeros, zero, zero)

    def theta(self, size, population):
        return jnp.asarray(self.mixing, jnp.result_type(float))

    def refresh(self, state, ask, x):
        x = ravel_pytree(x)[0].astype(state.x.dtype)
        moved = jnp.where(ask.round == 1, 0, jnp.sum((x - state.x) ** 2))
        step = jnp.where(state.step > 0, (1 - PACE) * state.step + PACE * moved, moved)
        return state._replace(x=x, clock=state.clock + moved, step=step)

    def scores(self, state, size, population):
        slope = jnp.where(state.slope > 0, state.slope, state.pooled_slope)
        norms = jnp.where((state.visit >= 0) & (slope > 0), slope * distance(state), positive(state.first_norm))
        return population.shares * norms

    def observe(self, state, cohort, feedback, size):
        ids, norms, far = cohort.ids, feedback / positive(cohort.share), distance(state)[cohort.ids]
        old_slope, visited = state.slope[ids], state.visit[ids] >= 0
        usable = cohort.active & (norms > 0)
        again, first = usable & visited & (far > 0), usable & ~visited
        slope = jnp.where(again, norms, 1) / positive(far)

        def put(old, new, where):
            return old.at[jnp.where(where, ids, old.size)].set(new, mode="drop")

        return state._replace(
            visit=put(state.visit, jnp.broadcast_to(state.clock, ids.shape), cohort.active),
            slope=put(state.slope, jnp.sqrt(slope) * jnp.sqrt(jnp.where(old_slope > 0, old_slope, slope)), again),
            pooled_slope=running_mean(state.pooled_slope, slope, again),
            first_norm=running_mean(state.first_norm, norms, first),
        )


def distance(state: DriftState) -> Float[Array, " n"]:
    """Return sqrt(D_i)."""
    return jnp.sqrt(state.clock - jnp.maximum(state.visit, 0) + LOCAL * state.step)


def running_mean(old: Float[Array, ""], new: Float[Array, " m"], where: Bool[Array, " m"]) -> Float[Array, ""]:
    """Return the running geometric mean `old`, 0 while unknown, updated by the `new` values selected by `where`.

    Args:
        old: The mean so far, 0 while unknown.
        new: New values [m].
        where: Which of them count [m].
    """
    count = jnp.sum(where, dtype=new.dtype)
    mean = jnp.exp(jnp.sum(jnp.log(jnp.where(where, new, 1))) / positive(count))
    return jnp.where(count > 0, mean**PACE * jnp.where(old > 0, old, mean) ** (1 - PACE), old)
