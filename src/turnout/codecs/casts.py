"""Casts to shorter types of floating-point numbers."""

from typing import Literal

import jax.numpy as jnp

from turnout.codecs.base import Codec
from turnout.core.records import record, static

PRECISION = {"bfloat16": 8, "float16": 11, "float32": 24}
"""Significant bits of each type."""

TOP = 15
"""float16 numbers are scaled so that the largest of an array is from 2^14 to 2^15."""

LOST = 4.0**-39
"""The most that a number below the normal ones of float16 loses, squared, over the square of the largest."""


@record
class Cast(Codec):
    """C(x) = x rounded to the nearest number of a shorter type.

    |C(x)_k - x_k| <= 2^-p |x_k| with p = 8, 11 and 24 significant bits. bfloat16 and float32 have the range of single precision:
    the bound holds for numbers between 1.2e-38 and 3.4e38, larger ones become the largest. float16 has numbers from 6e-5 to
    65504 only, so that C(x) = 2^-s cast(2^s x) with a whole number s for each array, which travels in 16 bits more: the largest
    number is then from 2^14 to 2^15, and numbers below 2^-28 times it lose up to 2^-39 times it.

    Args:
        dtype: "bfloat16", "float16" or "float32".

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> t.codecs.Cast("bfloat16").encode(jnp.array([1.0, 3.14159]), None)[0].nbytes
        4
    """

    dtype: Literal["bfloat16", "float16", "float32"] = static(default="bfloat16")

    def encode(self, x, key):
        if self.dtype != "float16":
            largest = jnp.asarray(jnp.finfo(self.dtype).max.astype(x.dtype))
            return (jnp.clip(x, -largest, largest).astype(self.dtype),)
        shift = TOP - jnp.frexp(jnp.max(jnp.abs(x)))[1]
        return _shifted(x, shift).astype(self.dtype), shift.astype("int16")

    def decode(self, payload, like, key):
        numbers = payload[0].astype(like.dtype)
        return _shifted(numbers, -payload[1].astype("int32")) if self.dtype == "float16" else numbers

    def contraction(self, size):
        alpha = 1 - 4.0 ** -PRECISION[self.dtype]
        return alpha - size * LOST if self.dtype == "float16" else alpha


def _shifted(x, shift):
    """Return 2^shift x, in two steps, since 2^shift itself may be too large."""
    for part in (shift // 2, shift - shift // 2):
        x = x * jnp.ldexp(jnp.ones((), x.dtype), part)
    return x
