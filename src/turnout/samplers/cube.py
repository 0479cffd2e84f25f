"""The cube method: cohorts balanced on given variables."""

from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from turnout.core.errors import UserError
from turnout.core.records import record, static
from turnout.core.tree import positive
from turnout.samplers.base import array_of
from turnout.samplers.fixed_size import FixedSize, balanced_variance, in_random_order
from turnout.samplers.strata import partition


@record
class Cube(FixedSize):
    """A random cohort with sum_{i in S} x_i / p_i = sum_i x_i as nearly as whole clients allow, and exactly K clients.

    `balance` says on which x_i: "size", the clients' numbers of rows n_i; an array [n, r], such as sketches of gradients, the
    most important column first; or "strata", x_i being p_i in one column for each stratum, so that each has its mean number of
    clients drawn, rounded up or down. Flight: p moves by random steps, each along a direction that changes no balance, to a
    face of the unit cube, which decides a client (Deville and Tille, 2004; in the order of Chauvet and Tille, 2006). Landing:
    where no such direction is left, columns are given up, the last first, never the size. A draw costs O(n r^3). The inclusion
    probabilities are exact; the variance is approximate (`balanced_variance`).
    """

    balance: Any = "strata"
    counts: bool = static(default=False, repr=False)

    name: ClassVar[str] = "cube"

    def fit(self, problem):
        sized = isinstance(self.balance, str) and self.balance == "size"
        sampler = replace(self, balance=problem.sizes.astype(float)[:, None]) if sized else self
        return super(Cube, sampler).fit(problem)

    def _bound(self, population, fitted):
        return replace(super()._bound(population, fitted), **self._variables(population))

    def _variables(self, population) -> dict[str, Any]:
        n, balance = population.count, self.balance
        if isinstance(balance, str) and balance == "strata":
            order, starts = partition(None, population, "cube")
            strata = np.zeros((n, starts.size - 1))
            strata[order, np.repeat(np.arange(starts.size - 1), np.diff(starts))] = 1
            return {"balance": strata, "counts": True}
        if isinstance(balance, str) and balance == "size":
            raise UserError("sampler 'cube' balances on the clients' numbers of rows, which only a problem knows: fit it to one")
        if isinstance(balance, str):
            raise UserError(f"sampler 'cube' can balance on 'strata', 'size' or an array, not on {balance!r}")
        x = array_of(balance, "cube", "balance").astype(float)
        if x.ndim != 2 or len(x) != n:
            raise UserError(f"sampler 'cube' needs balance with {n} rows, one for each client, but its shape is {x.shape}")
        if not np.all(np.isfinite(x)):
            raise UserError("sampler 'cube' needs finite numbers as balance: leave out what is not")
        return {"balance": x}

    def ratios(self, p: Float[Array, " n"]) -> Float[Array, "n columns"]:
        """Return x_i / p_i, after a column of ones, which is for the size."""
        x = jnp.asarray(self.balance, p.dtype)
        return jnp.concatenate([jnp.ones((p.size, 1), p.dtype), x if self.counts else x / positive(p)[:, None]], axis=1)

    def select(self, key, p, population):
        shuffle, moves = jax.random.split(key)
        # Those that are decided beforehand come last, and are met when nobody else is left.
        order = in_random_order(shuffle, jnp.where(undecided(p), p, 0))
        return jnp.zeros_like(p).at[order].set(fly(moves, p[order], self.ratios(p)[order]))

    def variance(self, state, population, vectors):
        p = self.expected_draws(state, population)
        return balanced_variance(p, vectors, self.ratios(p).astype(vectors.dtype))


@jax.jit
def fly(key, p: Float[Array, " n"], ratios: Float[Array, "n r"]) -> Float[Array, " n"]:
    """Return a random vertex of the cube [0, 1]^n with mean `p` that keeps sum_i p_i z_i, z_i = `ratios`, but for the landing.

    Each step moves the first r + 1 clients that are undecided.
    """
    n, r = ratios.shape
    # One client more, who is decided, fills the window when no other is left.
    p, ratios = jnp.append(p, 0), jnp.concatenate([ratios, jnp.zeros((1, r), p.dtype)])
    window = jnp.minimum(jnp.arange(r + 1), n)

    def move(step, state):
        p, window, met = state
        here = p[window]
        direction = still(ratios[window], undecided(here))
        up, down = room(here, direction), room(here, -direction)
        coin = jax.random.uniform(jax.random.fold_in(key, step), (), p.dtype)
        here = here + jnp.where(coin * (up + down) < down, up, -down) * direction
        free = undecided(here)
        p = p.at[window].set(jnp.where(free, here, jnp.round(here)))
        window = jnp.where(free, window, jnp.minimum(met + jnp.cumsum(~free) - 1, n))
        return p, window, met + jnp.sum(~free)

    return lax.fori_loop(0, n, move, (p, window, jnp.asarray(r + 1)))[0][:n]


def still(ratios: Float[Array, "w r"], free: Bool[Array, " w"]) -> Float[Array, " w"]:
    """Return v with max |v_i| = 1 and sum_i v_i z_i = 0, v_i = 0 for those not `free`.

    Columns that would leave no v are given up, the last first. The projection is onto what the columns kept so far leave free, so
    that its trace is the number of dimensions left.
    """
    rounding = jnp.finfo(ratios.dtype).eps ** (2 / 3)

    def keep(projection, column):
        # Twice, so that what rounding leaves in the kept columns' span is gone.
        rest = projection @ (projection @ column)
        square = rest @ rest
        binds = (square > rounding * (column @ column)) & (jnp.trace(projection) > 1.5)
        return projection - jnp.where(binds, jnp.outer(rest, rest) / positive(square), 0), None

    projection, _ = lax.scan(keep, jnp.diag(free.astype(ratios.dtype)), jnp.where(free, ratios.T, 0))
    v = jnp.where(free, projection[:, jnp.argmax(jnp.diagonal(projection))], 0)
    return v / positive(jnp.max(jnp.abs(v)))


def room(p: Float[Array, " w"], v: Float[Array, " w"]) -> Float[Array, ""]:
    """Return the largest t with 0 <= p + t v <= 1; it is at most 1 where max |v_i| = 1."""
    return jnp.min(jnp.where(v > 0, (1 - p) / positive(v), jnp.where(v < 0, p / positive(-v), 1)))


def undecided(p: Float[Array, " w"]) -> Bool[Array, " w"]:
    """Whether p_i is neither 0 nor 1, up to rounding."""
    rounding = 8 * jnp.finfo(p.dtype).eps
    return (p > rounding) & (p < 1 - rounding)
