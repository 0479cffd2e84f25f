"""Pivotal sampling in random order."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from turnout.core.records import record
from turnout.core.tree import positive
from turnout.samplers.fixed_size import FixedSize, in_random_order


@record
class Pivotal(FixedSize):
    """In random order each client duels with the one that is still undecided, until all p_i are 0 or 1 (random pivotal).

    Of p and q with p + q < 1 one becomes p + q and the other 0, p surviving with probability p / (p + q); otherwise one
    becomes p + q - 1 and the other 1, p becoming 1 with probability (1 - q) / (2 - p - q). Both end alike where p + q = 1, so
    that rounding has no say. The inclusion probabilities are exact (Deville and Tille, 1998); the variance is Hajek's, which is
    approximate.
    """

    name: ClassVar[str] = "pivotal"

    def select(self, key, p, population):
        shuffle, coins = jax.random.split(key)
        order = in_random_order(shuffle, p)
        return jnp.zeros_like(p).at[order].set(duels(p[order], jax.random.uniform(coins, p.shape, p.dtype)))


@jax.jit
def duels(p: Float[Array, " n"], coins: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return 0 or 1 for each client, up to rounding, with mean `p`: client 0 is undecided first, and meets 1, 2, ... in turn."""
    places = jnp.arange(p.size)

    def duel(undecided, new):
        (i, p), (j, q, coin) = undecided, new
        total = p + q
        low = total < 1
        first = coin < jnp.where(low, p / positive(total), (1 - q) / positive(2 - total))
        # Who wins goes on towards 1 where p + q is low, and is there where it is high, so that the other one goes on.
        stays = first == low
        left = jnp.where(stays, i, j), jnp.where(low, total, total - 1)
        return left, (jnp.where(stays, j, i), jnp.where(low, 0, jnp.ones_like(p)))

    (last, left), (ids, values) = lax.scan(duel, (places[0], p[0]), (places[1:], p[1:], coins[1:]))
    return jnp.zeros_like(p).at[ids].set(values).at[last].set(left)
