"""Probabilities for residuals, which grow as the model moves away from where a client was last seen."""

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
"""How many mean squared steps are added to what the clock says: local noise leaves residuals even where the model rests."""

PACE = 0.1
"""The weight of what is new in running means over rounds."""


class Moved(NamedTuple):
    """The last parameters x [d], the clock C, the mean squared step, and of each client [n] C_i and s_i.

    `visit` is -1 for those never drawn; `slope`, `usual`, the pooled one, and `fresh`, g, are 0 where they are not known yet.
    """

    x: Float[Array, " d"]
    clock: Float[Array, ""]
    step: Float[Array, ""]
    visit: Float[Array, " n"]
    slope: Float[Array, " n"]
    usual: Float[Array, ""]
    fresh: Float[Array, ""]


@record
class Drift(Probability):
    """a_i = lambda_i s_i sqrt(D_i), D_i = C - C_i + 0.3 (mean squared step), which grows as the model moves away.

    For residuals r_i = g_i - h_i with a memory h_i of the client's last update, as in `FedVarp`. C = sum_t |x^{t+1} - x^t|^2 so
    far, and C_i was its value when i was last drawn. s_i is a running geometric mean of |r_i| / sqrt(D_i), or that of all clients
    until i is drawn again. Clients never drawn have a_i = lambda_i g, g being the running geometric mean of |r_i| at first sight.
    Scores are mixed with their mean by `mixing` and then capped, so that p_i >= mixing K / n.
    """

    mixing: Share = 0.05
    dimension: Count | None = static(default=None, repr=False)

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
        return Moved(jnp.zeros(self.dimension or 0, zero.dtype), zero, zero, zeros - 1, zeros, zero, zero)

    def theta(self, size, population):
        return jnp.asarray(self.mixing, jnp.result_type(float))

    def refresh(self, state, ask, x):
        x = ravel_pytree(x)[0].astype(state.x.dtype)
        moved = jnp.where(ask.round == 1, 0, jnp.sum((x - state.x) ** 2))
        step = jnp.where(state.step > 0, (1 - PACE) * state.step + PACE * moved, moved)
        return state._replace(x=x, clock=state.clock + moved, step=step)

    def scores(self, state, size, population):
        slope = jnp.where(state.slope > 0, state.slope, state.usual)
        norms = jnp.where((state.visit >= 0) & (slope > 0), slope * distance(state), positive(state.fresh))
        return population.shares * norms

    def observe(self, state, cohort, feedback, size):
        ids, norms, far = cohort.ids, feedback / positive(cohort.share), distance(state)[cohort.ids]
        known, seen = state.slope[ids], state.visit[ids] >= 0
        heard = cohort.active & (norms > 0)
        again, first = heard & seen & (far > 0), heard & ~seen
        slope = jnp.where(again, norms, 1) / positive(far)

        def put(old, new, where):
            return old.at[jnp.where(where, ids, old.size)].set(new, mode="drop")

        return state._replace(
            visit=put(state.visit, jnp.broadcast_to(state.clock, ids.shape), cohort.active),
            slope=put(state.slope, jnp.sqrt(slope) * jnp.sqrt(jnp.where(known > 0, known, slope)), again),
            usual=followed(state.usual, slope, again),
            fresh=followed(state.fresh, norms, first),
        )


def distance(state: Moved) -> Float[Array, " n"]:
    """sqrt(D_i)."""
    return jnp.sqrt(state.clock - jnp.maximum(state.visit, 0) + LOCAL * state.step)


def followed(old: Float[Array, ""], new: Float[Array, " m"], where: Bool[Array, " m"]) -> Float[Array, ""]:
    """Return the running geometric mean, 0 until there is one, after the values `new` where it says so."""
    many = jnp.sum(where, dtype=new.dtype)
    mean = jnp.exp(jnp.sum(jnp.log(jnp.where(where, new, 1))) / positive(many))
    return jnp.where(many > 0, mean**PACE * jnp.where(old > 0, old, mean) ** (1 - PACE), old)
