"""Casts to shorter types of floating-point numbers."""

from typing import Literal

import jax.numpy as jnp

from turnout.codecs.base import Codec
from turnout.core.records import record, static

PRECISION = {"bfloat16": 8, "float16": 11, "float32": 24}
"""Significant bits of each type."""


@record
class Cast(Codec):
    """C(x) = x rounded to the nearest number of a shorter type.

    |C(x) - x| <= 2^-p |x| with p = 8, 11 and 24 significant bits, for numbers in the normal range of the type. Numbers beyond its
    largest become that one.

    Args:
        dtype: "bfloat16", "float16" or "float32".

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> t.codecs.Cast("bfloat16").encode(jnp.array([1.0, 3.14159]), None)[0].nbytes
        4
    """

    dtype: Literal["bfloat16", "float16", "float32"] = static(default="bfloat16")

    def encode(self, x, key):
        largest = jnp.asarray(jnp.finfo(self.dtype).max.astype(x.dtype))
        return (jnp.clip(x, -largest, largest).astype(self.dtype),)

    def decode(self, payload, like, key):
        return payload[0].astype(like.dtype)

    def contraction(self, size):
        return 1 - 4.0 ** -PRECISION[self.dtype]
