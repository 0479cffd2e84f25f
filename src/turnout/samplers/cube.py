"""The cube method: cohorts that are balanced on given variables."""

from dataclasses import field, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from turnout.core.errors import UserError
from turnout.core.records import record, static
from turnout.core.tree import positive
from turnout.samplers.base import as_numbers
from turnout.samplers.fixed_size import FixedSize, in_random_order
from turnout.samplers.strata import partition

TRIALS = 1000
"""Draws that the variance is estimated from."""

TRIALS_AT_ONCE = 100
"""Draws that are computed side by side."""


@record
class Cube(FixedSize):
    """Exactly K clients with sum_{i in S} x_i / p_i close to sum_i x_i: the cube method (Deville and Tille, 2004).

    Flight: p moves by random steps, each along a direction that changes no balancing sum, to a face of the unit cube, which
    decides a client (in the order of Chauvet and Tille, 2006). Landing: if there is no such direction, the last of the balancing
    columns is dropped, but never the size. The inclusion probabilities p_i are exact. The variance has no formula: the metric is
    an estimate from 1,000 draws. A draw costs O(n r^3) for r balancing variables.

    Args:
        probability: A rule for p_i, or p [n] in (0, 1] with sum K; None takes p_i = K / n.
        size: K, the number of clients in a cohort.
        balance: The variables x_i. "size": the clients' row counts. An array [n, r], such as sketches of gradients, with the most
            important column first. "strata": p_i in one column per stratum, so that each stratum has its expected number of
            clients in the cohort, rounded up or down.
        counts: Set by `bind`: whether `balance` holds the columns of "strata", already divided by p_i.

    Raises:
        UserError: On binding, if `balance` does not fit; "size" needs a problem.

    Examples:
        >>> import jax, numpy as np, turnout as t
        >>> population = t.Population(count=6, strata=np.array([0, 0, 1, 1, 2, 2]))
        >>> cohort = t.Cube(size=3).bind(population).draw(None, jax.random.key(0), population)
        >>> sorted(i // 2 for i in cohort.ids.tolist())
        [0, 1, 2]
    """

    balance: Any = field(default="strata", kw_only=True)
    counts: bool = static(default=False, repr=False, kw_only=True)

    name: ClassVar[str] = "cube"

    def fit(self, problem):
        by_size = isinstance(self.balance, str) and self.balance == "size"
        sampler = replace(self, balance=problem.sizes.astype(float)[:, None]) if by_size else self
        return super(Cube, sampler).fit(problem)

    def _bound(self, population, fit_rule):
        return replace(super()._bound(population, fit_rule), **self._variables(population))

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
        x = as_numbers(balance, "cube", "balance").astype(float)
        if x.ndim != 2 or len(x) != n:
            raise UserError(f"sampler 'cube' needs balance with {n} rows, one for each client, but its shape is {x.shape}")
        if not np.all(np.isfinite(x)):
            raise UserError("sampler 'cube' needs finite numbers as balance: leave out what is not")
        return {"balance": x}

    def ratios(self, p: Float[Array, " n"]) -> Float[Array, "n columns"]:
        """Return x_i / p_i [n, r + 1], the first column being 1 to fix the size."""
        x = jnp.asarray(self.balance, p.dtype)
        return jnp.concatenate([jnp.ones((p.size, 1), p.dtype), x if self.counts else x / positive(p)[:, None]], axis=1)

    def select(self, key, p, population):
        shuffle, moves = jax.random.split(key)
        # Clients with p_i = 0 or 1 come last; they are processed when no other client is left.
        order = in_random_order(shuffle, jnp.where(undecided(p), p, 0))
        return jnp.zeros_like(p).at[order].set(cube_flight(moves, p[order], self.ratios(p)[order]))

    def variance(self, state, population, vectors):
        """Return the mean of |sum_{i in S} v_i / p_i - sum_i v_i|^2 over `TRIALS` draws, always with the same keys.

        Its relative standard error is sqrt((kappa - 1) / TRIALS), kappa = E|error|^4 / (E|error|^2)^2; for errors that are normal
        kappa <= 3, so that it is at most 5%.

        Args:
            state: State of the sampler.
            population: The clients, their weights, and who is available.
            vectors: v_i [n, d].
        """
        p = self.expected_draws(state, population).astype(vectors.dtype)[:, None]
        expanded, total = vectors / positive(p), jnp.sum(jnp.where(p > 0, vectors, 0), axis=0)

        def squared_error(key):
            cohort = self.draw(state, key, population)
            return jnp.sum((jnp.sum(jnp.where(cohort.active[:, None], expanded[cohort.ids], 0), axis=0) - total) ** 2)

        return jnp.mean(lax.map(squared_error, jax.random.split(jax.random.key(0), TRIALS), batch_size=TRIALS_AT_ONCE))


@jax.jit
def cube_flight(key, p: Float[Array, " n"], ratios: Float[Array, "n r"]) -> Float[Array, " n"]:
    """Return a random vertex of the cube [0, 1]^n with mean `p` that preserves sum_i p_i z_i, z_i = `ratios`, until the landing.

    Each step moves the first r + 1 undecided clients.

    Args:
        key: Random key.
        p: Inclusion probabilities p_i [n].
        ratios: z_i [n, r].
    """
    n, r = ratios.shape
    # An additional, decided client fills the window when no other is left.
    p, ratios = jnp.append(p, 0), jnp.concatenate([ratios, jnp.zeros((1, r), p.dtype)])
    window = jnp.minimum(jnp.arange(r + 1), n)

    def move(step, state):
        p, window, count = state
        moving = p[window]
        direction = balance_preserving_direction(ratios[window], undecided(moving))
        up, down = largest_step(moving, direction), largest_step(moving, -direction)
        coin = jax.random.uniform(jax.random.fold_in(key, step), (), p.dtype)
        moving = moving + jnp.where(coin * (up + down) < down, up, -down) * direction
        free = undecided(moving)
        p = p.at[window].set(jnp.where(free, moving, jnp.round(moving)))
        window = jnp.where(free, window, jnp.minimum(count + jnp.cumsum(~free) - 1, n))
        return p, window, count + jnp.sum(~free)

    return lax.fori_loop(0, n, move, (p, window, jnp.asarray(r + 1)))[0][:n]


def balance_preserving_direction(ratios: Float[Array, "w r"], free: Bool[Array, " w"]) -> Float[Array, " w"]:
    """Return v with max |v_i| = 1, sum_i v_i z_i = 0, and v_i = 0 for clients that are not `free`.

    Columns that would leave no such v are dropped, the last first. `projection` is onto the orthogonal complement of the columns
    accepted so far; its trace is the number of free dimensions.

    Args:
        ratios: z_i [w, r].
        free: Which clients may move [w].
    """
    rounding = jnp.finfo(ratios.dtype).eps ** (2 / 3)

    def accept(projection, column):
        # Twice, to remove what rounding leaves in the span of the accepted columns.
        rest = projection @ (projection @ column)
        square = rest @ rest
        binds = (square > rounding * (column @ column)) & (jnp.trace(projection) > 1.5)
        return projection - jnp.where(binds, jnp.outer(rest, rest) / positive(square), 0), None

    projection, _ = lax.scan(accept, jnp.diag(free.astype(ratios.dtype)), jnp.where(free, ratios.T, 0))
    v = jnp.where(free, projection[:, lax.top_k(jnp.diagonal(projection), 1)[1][0]], 0)
    return v / positive(jnp.max(jnp.abs(v)))


def largest_step(p: Float[Array, " w"], v: Float[Array, " w"]) -> Float[Array, ""]:
    """Return the largest t with 0 <= p + t v <= 1; it is at most 1 where max |v_i| = 1.

    Args:
        p: Point in the cube [w].
        v: Direction [w].
    """
    return jnp.min(jnp.where(v > 0, (1 - p) / positive(v), jnp.where(v < 0, p / positive(-v), 1)))


def undecided(p: Float[Array, " w"]) -> Bool[Array, " w"]:
    """Return whether p_i is neither 0 nor 1, up to rounding."""
    rounding = 8 * jnp.finfo(p.dtype).eps
    return (p > rounding) & (p < 1 - rounding)
