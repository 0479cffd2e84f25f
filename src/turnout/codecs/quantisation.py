"""Quantisers: each number becomes a few bits."""

from typing import Annotated

import annotated_types as at
import jax
import jax.numpy as jnp

from turnout.codecs.base import Codec
from turnout.codecs.bits import pack, rounded, rounded_up, uniform, unpack
from turnout.core.records import record, static
from turnout.core.tree import positive


@record
class Qsgd(Codec):
    """Stochastic rounding to `bits` bits a number (QSGD, Alistarh et al., 2017, section 3.1, with |x|_inf in the place of |x|).

    C(x)_k = M round(s x_k / M) / s with M = max_k |x_k| and s = 2^(bits - 1) - 1, rounded up or down at random so that
    E C(x) = x. Each number has variance at most min(M^2 / (4 s^2), M |x_k| / s), hence omega = min(d / (4 s^2), sqrt(d) / s).
    One bit is the sign alone: C(x)_k = M or -M, and omega = d - 1. M is rounded up to bfloat16, by at most a 128th, which keeps C
    unbiased and adds as much to the errors.

    Args:
        bits: Bits of each number, 1 to 8.

    Examples:
        >>> import jax, jax.numpy as jnp, turnout as t
        >>> levels, largest = t.codecs.Qsgd(bits=4).encode(jnp.arange(10.0), jax.random.key(0))
        >>> levels.nbytes, largest.nbytes
        (5, 2)
    """

    bits: Annotated[int, at.Ge(1), at.Le(8)] = static(default=4)

    @property
    def _steps(self) -> float:
        """Steps s from 0 to M; with one bit half a step, so that -M and M are one step apart."""
        return 0.5 if self.bits == 1 else 2 ** (self.bits - 1) - 1

    def encode(self, x, key):
        x = x.reshape(-1)
        largest = rounded_up(jnp.max(jnp.abs(x)))
        scaled = x / positive(largest.astype(x.dtype)) * self._steps + self._steps
        levels = rounded(scaled, uniform(key, x.size, x.dtype))
        # Rounding of the sum must not lead out of the range.
        return pack(jnp.clip(levels, 0, 2 * self._steps).astype("uint32"), self.bits), largest

    def decode(self, payload, like, key):
        packed, largest = payload
        levels = unpack(packed, like.size, self.bits).astype(like.dtype)
        return ((levels - self._steps) * (largest.astype(like.dtype) / self._steps)).reshape(like.shape)

    def variance(self, size):
        square = (1 + 2.0**-7) ** 2
        if self.bits == 1:
            return size * square - 1
        return min(size / (4 * self._steps**2), size**0.5 / self._steps) * square


@record
class Natural(Codec):
    """Natural compression: each number becomes a power of two, at random the next smaller or larger (Horvath et al., 2019).

    C(x)_k = sign(x_k) 2^e or sign(x_k) 2^(e + 1), where 2^e <= |x_k| < 2^(e + 1), with E C(x) = x and omega = 1/8. Sign and
    exponent take 9 bits of a number in single precision, and 12 in double.

    Examples:
        >>> import jax, jax.numpy as jnp, turnout as t
        >>> t.codecs.Natural().encode(jnp.arange(16, dtype="float32"), jax.random.key(0))[0].nbytes
        18
    """

    def encode(self, x, key):
        mantissa, whole, bits = _layout(x.dtype)
        words = jax.lax.bitcast_convert_type(x.reshape(-1), whole)
        fraction = words & whole.type(2**mantissa - 1)
        up = fraction.astype(x.dtype) * jnp.asarray(2.0**-mantissa, x.dtype) > uniform(key, x.size, x.dtype)
        return (pack((words >> mantissa) + up.astype(whole), bits),)

    def decode(self, payload, like, key):
        mantissa, whole, bits = _layout(like.dtype)
        words = unpack(payload[0], like.size, bits).astype(whole) << mantissa
        return jax.lax.bitcast_convert_type(words, like.dtype).reshape(like.shape)

    def variance(self, size):
        return 0.125


def _layout(dtype) -> tuple[int, jnp.dtype, int]:
    """Return the bits of the mantissa, the whole numbers of the same width, and the bits of sign and exponent."""
    width = jnp.dtype(dtype).itemsize * 8
    mantissa = jnp.finfo(dtype).nmant
    return mantissa, jnp.dtype(f"uint{width}"), width - mantissa


@record
class Sign(Codec):
    """C(x) = (|x|_1 / d) sign(x): one bit a number and one scale (Karimireddy et al., 2019, section 4).

    A contraction with alpha = |x|_1^2 / (d |x|^2), which is at least 1 / d. The sign of 0 counts as positive.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> signs, scale = t.codecs.Sign().encode(jnp.array([1.0, -3.0]), None)
        >>> signs.nbytes, float(scale)
        (1, 2.0)
    """

    def encode(self, x, key):
        x = x.reshape(-1)
        return pack((x < 0).astype("uint32"), 1), jnp.mean(jnp.abs(x))

    def decode(self, payload, like, key):
        packed, scale = payload
        return ((1 - 2 * unpack(packed, like.size, 1).astype(like.dtype)) * scale).reshape(like.shape)

    def contraction(self, size):
        return 1 / size
