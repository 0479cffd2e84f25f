"""Pseudo-random permutations that are evaluated point by point, so that a draw of m from n costs O(m)."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int, UInt

ROUNDS = 12
"""Feistel rounds; with fewer, a chi-square test over all subsets of a very small domain detects a bias."""


def permute(key, positions: Int[Array, " m"], n: int | Int[Array, " m"]) -> Int[Array, " m"]:
    """Return pi(positions) for a random permutation pi of {0, ..., n - 1} chosen by `key`.

    Where n is an array, `key` holds m keys, and position k is permuted on its own in {0, ..., n_k - 1}.
    A point is a pair (left, right) of Z_a x Z_b with a = ceil(sqrt n) and b = ceil(n / a). Each round adds a keyed hash of
    one half to the other, which is a bijection; a point whose image is outside {0, ..., n - 1} is permuted again.

    Args:
        key: Random key, or m of them.
        positions: Positions [m].
        n: Length of the permutation, or one for each position [m].
    """
    a: Any
    if isinstance(n, int):
        size, a = n, math.isqrt(n - 1) + 1 if n > 1 else 1
        keys = _round_keys(key)
    else:
        # The root may be rounded either way: b fits any a.
        size = n.astype("uint32")
        a = jnp.ceil(jnp.sqrt(n.astype(float))).astype("uint32")
        keys = jax.vmap(_round_keys, out_axes=1)(key)
    b = (size + a - 1) // a

    def once(points: UInt[Array, " m"]) -> UInt[Array, " m"]:
        return _shuffle(points, keys, jnp.asarray(a, "uint32"), jnp.asarray(b, "uint32"))

    points = positions.astype("uint32")
    if isinstance(n, int) and a * b == n:
        return once(points).astype("int32")

    def again(state: tuple[UInt[Array, " m"], Bool[Array, " m"]]) -> tuple[UInt[Array, " m"], Bool[Array, " m"]]:
        points, outside = state
        points = jnp.where(outside, once(points), points)
        return points, points >= size

    # At most a - 1 of the a b points lie outside, so that two steps are hardly ever too few. One text for all of them compiles
    # sooner than the first step apart.
    points, _ = lax.while_loop(lambda state: jnp.any(state[1]), again, (points, jnp.ones_like(points, bool)))
    return points.astype("int32")


SWAPS = 24
"""Rounds of swaps; a point keeps its place with probability 2^-24, and a chi-square test over all orders detects no bias."""


def shuffled(key, n: Int[Array, ""]) -> Callable[[Int[Array, " m"]], Int[Array, " m"]]:
    """Return a random permutation of {0, ..., n - 1}, for an n below 2^31 that is computed, as a function of the positions.

    Swap-or-not (Hoang, Morris and Rogaway, 2012): a round pairs x with k - x mod n for a random k, and a hash of each pair
    decides whether it swaps. No point leaves the domain, so a batch of positions takes one short loop without divisions.

    Args:
        key: Random key.
        n: Length of the permutation.
    """
    size = n.astype("uint32")
    words, salts = jax.random.bits(key, (2, SWAPS), "uint32")
    centres = words % size

    def order(positions: Int[Array, " m"]) -> Int[Array, " m"]:
        x = positions.astype("uint32")
        for r in range(SWAPS):
            other = jnp.where(x <= centres[r], centres[r] - x, centres[r] + size - x)
            x = jnp.where(mix(jnp.maximum(x, other) ^ salts[r]) >> 31 == 1, other, x)
        return x.astype("int32")

    return order


@jax.jit
def _shuffle(points: UInt[Array, " m"], keys: UInt[Array, "rounds *m"], a, b) -> UInt[Array, " m"]:
    """Return the image of each point after all rounds; compiled on its own, so that it is traced once."""
    # No number is negative here; `%` and `//` would add a dozen operations for those that are.
    right, left = lax.div(points, a), lax.rem(points, a)
    for r in range(ROUNDS):
        if r % 2:
            right = lax.rem(right + lax.rem(mix(left ^ keys[r]), b), b)
        else:
            left = lax.rem(left + lax.rem(mix(right ^ keys[r]), a), a)
    return right * a + left


def _round_keys(key) -> UInt[Array, " rounds"]:
    return jax.random.bits(key, (ROUNDS,), "uint32")


def mix(x: UInt[Array, "*m"]) -> UInt[Array, "*m"]:
    """Mix 32 bits so that each output bit depends on all input bits (a multiply-xorshift finaliser)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
