"""Sparsifiers: a few numbers of an array travel, the others are zero."""

import math

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from turnout.codecs.base import Codec
from turnout.codecs.bits import FewBits, bits_for, from_levels, pack, to_levels, unpack
from turnout.core.errors import UserError
from turnout.core.permutation import permute
from turnout.core.records import Count, Fraction, record, static
from turnout.core.tree import positive


class _Sparse(Codec):
    """A codec that keeps k of d numbers: `count`, or the share `fraction` rounded up."""

    fraction: float | None
    count: int | None

    def __post_init__(self):
        if (self.fraction is None) == (self.count is None):
            raise UserError(f"{type(self).__name__} keeps a fraction of the numbers or a count of them: give one of the two")

    def kept(self, size: int) -> int:
        """Return k for arrays of `size` numbers."""
        return min(self.count or 1, size) if self.fraction is None else math.ceil(self.fraction * size - 1e-9)

    def check(self, size):
        if self.count is not None and self.count > size:
            raise UserError(
                f"{type(self).__name__} keeps {self.count} numbers, but an array has {size}: lower count, or give a fraction"
            )


@record
class TopK(_Sparse):
    """The k numbers of largest magnitude, with their places (Alistarh et al., 2018); a contraction with alpha = k / d.

    Places are k numbers of ceil(log2 d) bits, or d bits that mark them where these are fewer. With `bits` = b a number x_i is
    rounded to the nearest of sign(x_i) M (j / s)^(3/2), j = 1, ..., s = 2^(b - 1), where M is the largest magnitude in bfloat16,
    rounded up. Then no alpha is known: kept numbers below the first level are raised to it.

    Args:
        fraction: k / d, rounded up to a whole k.
        count: k itself.
        bits: Bits of each number, 2 to 8; None for all of them.

    Raises:
        UserError: Where `count` is more than an array has.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> values, places = t.codecs.TopK(count=2).encode(jnp.array([1.0, -4.0, 2.0, 0.5]), None)
        >>> values.tolist(), places.nbytes
        ([-4.0, 2.0], 1)
        >>> (values, largest), places = t.codecs.TopK(count=2, bits=4).encode(jnp.array([1.0, -4.0, 2.0, 0.5]), None)
        >>> values.nbytes, largest.nbytes
        (1, 2)
    """

    fraction: Fraction | None = static(default=None, kw_only=True)
    count: Count | None = static(default=None, kw_only=True)
    bits: FewBits | None = static(default=None, kw_only=True)

    def encode(self, x, key):
        x = x.reshape(-1)
        places = largest_places(x, self.kept(x.size))
        if self._marks(x.size):
            places = jnp.sort(places)
            packed = pack(jnp.zeros(x.size, "uint32").at[places].set(1, unique_indices=True), 1)
        else:
            packed = pack(places.astype("uint32"), bits_for(x.size))
        return (x[places] if self.bits is None else to_levels(x[places], self.bits)), packed

    def decode(self, payload, like, key):
        values, packed = payload
        k = self.kept(like.size)
        if self.bits is not None:
            values = from_levels(values, k, self.bits, like.dtype)
        if self._marks(like.size):
            places = jnp.nonzero(unpack(packed, like.size, 1), size=k)[0]
        else:
            places = unpack(packed, k, bits_for(like.size)).astype("int32")
        return jnp.zeros(like.size, like.dtype).at[places].set(values, unique_indices=True).reshape(like.shape)

    def contraction(self, size):
        return self.kept(size) / size if self.bits is None else None

    def _marks(self, size: int) -> bool:
        """Whether places are marks on all `size` numbers."""
        return size < self.kept(size) * bits_for(size)


@record
class RandK(_Sparse):
    """k random numbers times d / k; unbiased with omega = d / k - 1. Their places follow from the key and are not sent.

    Args:
        fraction: k / d, rounded up to a whole k.
        count: k itself.
        common: Whether all clients of an exchange keep the same places: then sums of payloads can be decoded.

    Raises:
        UserError: Where `count` is more than an array has.

    Examples:
        >>> import jax, jax.numpy as jnp, turnout as t
        >>> t.codecs.RandK(fraction=0.5).encode(jnp.ones(8), jax.random.key(0))[0].tolist()
        [2.0, 2.0, 2.0, 2.0]
    """

    fraction: Fraction | None = static(default=None, kw_only=True)
    count: Count | None = static(default=None, kw_only=True)
    common: bool = static(default=False, kw_only=True)

    decodes_with_key = True

    @property
    def linear(self):
        return self.common

    def encode(self, x, key):
        k = self.kept(x.size)
        return (x.reshape(-1)[_places(key, k, x.size)] * jnp.asarray(x.size / k, x.dtype),)

    def decode(self, payload, like, key):
        flat = jnp.zeros(like.size, like.dtype)
        return flat.at[_places(key, self.kept(like.size), like.size)].set(payload[0], unique_indices=True).reshape(like.shape)

    def variance(self, size):
        return size / self.kept(size) - 1


def _places(key, k: int, size: int) -> Int[Array, " k"]:
    return permute(key, jnp.arange(k, dtype="int32"), size)


WIDTH = 2**16
"""Numbers in a row of the search for the largest ones of a long array."""

SHORT = 2 * WIDTH
"""Arrays up to this length are searched at once."""


def largest_places(x: Float[Array, " d"], k: int) -> Int[Array, " k"]:
    """Return the places of the k numbers of largest magnitude.

    Of a long array the largest of each row of `WIDTH` numbers are found first. If some row may have more among the k largest than
    were looked at, the search starts over on the whole array, so that the result is always right (to single precision).

    Args:
        x: Numbers [d].
        k: How many places.
    """
    size, rows = x.shape[0], -(-x.shape[0] // WIDTH)
    mean = k / rows
    seen = math.ceil(mean + 6 * math.sqrt(mean) + 6)
    magnitude = jnp.abs(x)
    if size <= SHORT or 4 * seen > WIDTH:
        return lax.top_k(magnitude, k)[1]
    # XLA finds the largest numbers fast in single precision only.
    magnitude = (magnitude / positive(jnp.max(magnitude))).astype("float32")
    table = jnp.pad(magnitude, (0, rows * WIDTH - size), constant_values=-1).reshape(rows, WIDTH)
    # Without barriers XLA turns both searches into sorts, which take ten times as long.
    values, columns = lax.optimization_barrier(lax.top_k(lax.optimization_barrier(table), seen))
    places = (columns + WIDTH * jnp.arange(rows, dtype=columns.dtype)[:, None]).reshape(-1)
    best, order = lax.optimization_barrier(lax.top_k(values.reshape(-1), k))
    complete = jnp.all(values[:, -1] <= best[-1])
    # A loop and not a branch: in a batch both branches would be computed.
    _, found = lax.while_loop(
        lambda carry: ~carry[0], lambda _: (jnp.ones((), bool), lax.top_k(magnitude, k)[1]), (complete, places[order])
    )
    return found
