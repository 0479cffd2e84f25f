"""Whole numbers of a few bits in bytes, and roundings of numbers."""

from typing import Annotated

import annotated_types as at
import jax
import jax.numpy as jnp
from jaxtyping import Array, BFloat16, Float, PyTree, UInt, UInt8

from turnout.core.permutation import mix
from turnout.core.tree import positive

FewBits = Annotated[int, at.Ge(2), at.Le(8)]
"""Bits of a number with a sign and at least two levels."""


def packed_size(count: int, bits: int) -> int:
    """Return the number of bytes of `count` numbers of `bits` bits."""
    return -(-count * bits // 8)


def bits_for(count: int) -> int:
    """Return how many bits a number below `count` takes, at least one."""
    return max(1, (count - 1).bit_length())


def pack(values: UInt[Array, " d"], bits: int) -> UInt8[Array, " b"]:
    """Return numbers below 2^bits, one after the other, as b = ceil(d bits / 8) bytes, lowest bits first.

    Args:
        values: The numbers [d].
        bits: Bits of each, 1 to 32.
    """
    count = values.shape[0]
    # Eight numbers fill `bits` whole bytes.
    groups = jnp.pad(values.astype("uint32"), (0, -count % 8)).reshape(-1, 8)
    columns = [_gathered([(groups[:, t], t * bits - 8 * byte) for t in range(8) if _meet(t, byte, bits)]) for byte in range(bits)]
    return jnp.stack(columns, axis=1).astype("uint8").reshape(-1)[: packed_size(count, bits)]


def unpack(packed: UInt8[Array, " b"], count: int, bits: int) -> UInt[Array, " d"]:
    """Return the `count` numbers that `pack` packed.

    Args:
        packed: The bytes [b].
        count: d, how many numbers there are.
        bits: Bits of each.
    """
    groups = jnp.pad(packed.astype("uint32"), (0, -packed.shape[0] % bits)).reshape(-1, bits)
    columns = [
        _gathered([(groups[:, byte], 8 * byte - t * bits) for byte in range(bits) if _meet(t, byte, bits)]) for t in range(8)
    ]
    mask = jnp.uint32(2**bits - 1)
    return (jnp.stack(columns, axis=1) & mask).reshape(-1)[:count]


def _meet(number: int, byte: int, bits: int) -> bool:
    """Return whether a number of a group has bits in a byte of it."""
    return number * bits < 8 * byte + 8 and 8 * byte < (number + 1) * bits


def _gathered(parts: list[tuple[Array, int]]) -> UInt[Array, " g"]:
    """Return the bits of the parts, each shifted to the left, or to the right if negative, put together."""
    total = jnp.zeros_like(parts[0][0])
    for part, shift in parts:
        total = total | (part << shift if shift >= 0 else part >> -shift)
    return total


def uniform(key, count: int, dtype) -> Float[Array, " d"]:
    """Return `count` random numbers in [0, 1), multiples of 2^-24, from a hash of their place.

    `jax.random` takes about ten times as long, since it is made for more than rounding.

    Args:
        key: Random key.
        count: d, how many numbers.
        dtype: Their type.
    """
    first, second = jax.random.bits(key, (2,), "uint32")
    places = jax.lax.iota("uint32", count)
    return (mix(mix(places ^ first) ^ second) >> 8).astype(dtype) * jnp.asarray(2.0**-24, dtype)


def rounded(x: Float[Array, " d"], uniform: Float[Array, " d"]) -> Float[Array, " d"]:
    """Return floor(x + u): x rounded up with a probability of its fractional part, so that the expectation is x.

    Args:
        x: Numbers [d].
        uniform: u, uniform in [0, 1) [d].
    """
    return jnp.floor(x + uniform)


def rounded_up(x: Float[Array, ""]) -> BFloat16[Array, ""]:
    """Return the smallest number in bfloat16 that is at least x >= 0."""
    # Without the barrier XLA may leave out a cast there and back on a GPU.
    near = jax.lax.optimization_barrier(x.astype("bfloat16"))
    return jnp.where(near.astype(x.dtype) < x, jnp.nextafter(near, jnp.asarray(jnp.inf, "bfloat16")), near)


def to_levels(x: Float[Array, " k"], bits: int) -> PyTree:
    """Return each x_i as the nearest of sign(x_i) M (j / s)^(3/2), j = 1, ..., s = 2^(bits - 1), and M = max_k |x_k|, rounded up.

    Args:
        x: Numbers [k].
        bits: Bits of each.

    Returns:
        The signs and j, packed: ceil(k bits / 8) bytes; and M in bfloat16.
    """
    largest, steps = rounded_up(jnp.max(jnp.abs(x))), 2 ** (bits - 1)
    share = jnp.abs(x) / positive(largest.astype(x.dtype))
    middles = (_levels(steps, x.dtype)[1:] + _levels(steps, x.dtype)[:-1]) / 2
    levels = jnp.searchsorted(middles, share).astype("uint32")
    return pack(levels + jnp.where(x < 0, steps, 0).astype("uint32"), bits), largest


def from_levels(payload: PyTree, count: int, bits: int, dtype) -> Float[Array, " k"]:
    """Return the numbers that `to_levels` rounded.

    Args:
        payload: What `to_levels` returned.
        count: k, how many numbers there are.
        bits: Bits of each.
        dtype: The type of the numbers.
    """
    (packed, largest), steps = payload, 2 ** (bits - 1)
    words = unpack(packed, count, bits)
    magnitudes = _levels(steps, dtype)[words % steps] * largest.astype(dtype)
    return jnp.where(words < steps, magnitudes, -magnitudes)


def _levels(steps: int, dtype) -> Float[Array, " s"]:
    """Return (j / s)^(3/2) for j = 1, ..., s: closer to each other for the many small numbers than for the few large ones."""
    return jnp.asarray([(j / steps) ** 1.5 for j in range(1, steps + 1)], dtype)
