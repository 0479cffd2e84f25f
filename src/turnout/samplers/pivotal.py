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
    """Exactly K clients by the random pivotal method: pairs compete until every p_i is 0 or 1 (Deville and Tille, 1998).

    Clients come in random order, and each meets the last undecided one. If p + q < 1, one of the two gets p + q and the other
    0: the first survives with probability p / (p + q). Otherwise one gets 1 and the other p + q - 1: the first gets 1 with
    probability (1 - q) / (2 - p - q). The inclusion probabilities p_i are exact. The variance is Hajek's approximation.

    Args:
        probability: A rule for p_i, or p [n] in (0, 1] with sum K; None takes p_i = K / n.
        size: K, the number of clients in a cohort.

    Examples:
        >>> import jax, turnout as t
        >>> population = t.Population(count=4)
        >>> sampler = t.Pivotal([0.25, 0.25, 0.5, 1.0], size=2).bind(population)
        >>> cohort = sampler.draw(None, jax.random.key(0), population)
        >>> int(cohort.size), 3 in cohort.ids.tolist()
        (2, True)
    """

    name: ClassVar[str] = "pivotal"

    def select(self, key, p, population):
        shuffle, coins = jax.random.split(key)
        order = in_random_order(shuffle, p)
        return jnp.zeros_like(p).at[order].set(pivotal_selection(p[order], jax.random.uniform(coins, p.shape, p.dtype)))


@jax.jit
def pivotal_selection(p: Float[Array, " n"], coins: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return 0 or 1 for each client, up to rounding, with mean `p`: client 0 is undecided first and meets 1, 2, ... in turn.

    Args:
        p: Inclusion probabilities p_i [n].
        coins: Uniform random numbers in [0, 1) [n].
    """
    places = jnp.arange(p.size)

    def compete(undecided, new):
        (i, p), (j, q, coin) = undecided, new
        total = p + q
        low = total < 1
        first = coin < jnp.where(low, p / positive(total), (1 - q) / positive(2 - total))
        # For low totals the winner stays undecided with p + q; for high totals the winner is drawn and the loser stays.
        stays = first == low
        remaining = jnp.where(stays, i, j), jnp.where(low, total, total - 1)
        return remaining, (jnp.where(stays, j, i), jnp.where(low, 0, jnp.ones_like(p)))

    (last, value), (ids, values) = lax.scan(compete, (places[0], p[0]), (places[1:], p[1:], coins[1:]))
    return jnp.zeros_like(p).at[ids].set(values).at[last].set(value)
