"""The codec protocol: how an array becomes a payload of fewer bits, and the payload an array again."""

from collections.abc import Callable
from typing import ClassVar

import jax
from jaxtyping import Array, Float, PyTree

from turnout.core.errors import UserError
from turnout.core.records import record


class Codec:
    """A compressor C of arrays with d numbers: `decode(encode(x))` is C(x). A codec of your own is a record with both.

    A codec is unbiased, E C(x) = x with E|C(x) - x|^2 <= `variance(d)` |x|^2, or a contraction, E|C(x) - x|^2 <=
    (1 - `contraction(d)`) |x|^2. An unbiased C with variance omega is one after division by 1 + omega, with 1 / (1 + omega).

    All fields are static, since they fix the shapes of payloads.

    Examples:
        >>> import turnout as t
        >>> @t.record
        ... class Halved(t.Codec):
        ...     def encode(self, x, key):
        ...         return (x.astype("float16"),)
        ...
        ...     def decode(self, payload, like, key):
        ...         return payload[0].astype(like.dtype)
        >>> problem = t.Quadratic.random(clients=4, dimension=3, seed=0)
        >>> trace = t.run(t.MbGd(t.Full(), lr=0.1), problem, rounds=2, exchange=t.Exchange(up=Halved()))
        >>> trace.ledger.totals()["bytes_up"]  # 2 rounds, 4 clients, 3 numbers, 2 bytes
        48
    """

    example = "t.codecs.TopK(fraction=0.1)"

    linear: ClassVar[bool] = False
    """Whether sums of payloads decode to the sums of what the payloads decode to, as secure sums and central privacy need."""

    decodes_with_key: ClassVar[bool] = False
    """Whether the receiver needs the random key of the sender."""

    def encode(self, x: Float[Array, "..."], key) -> PyTree:
        """Return the payload of x: a tuple of arrays whose shapes depend on the shape of x only.

        Args:
            x: An array of at least two numbers.
            key: Random key.
        """
        raise UserError(f"{type(self).__name__} has no encode(self, x, key): write one")

    def decode(self, payload: PyTree, like: jax.ShapeDtypeStruct, key) -> Float[Array, "..."]:
        """Return C(x).

        Args:
            payload: What `encode` returned.
            like: Shape and dtype of x.
            key: The key that `encode` was given, if the codec `decodes_with_key`.
        """
        raise UserError(f"{type(self).__name__} has no decode(self, payload, like, key): write one")

    def variance(self, size: int) -> float | None:
        """Return omega for arrays of `size` numbers; None where C is biased."""
        return None

    def contraction(self, size: int) -> float | None:
        """Return alpha for arrays of `size` numbers, of C / (1 + omega) where C is unbiased; None where none is known."""
        omega = self.variance(size)
        return None if omega is None else 1 / (1 + omega)

    def check(self, size: int) -> None:
        """Raise `UserError` where arrays of `size` numbers cannot be encoded."""


@record
class Identity(Codec):
    """C(x) = x: numbers travel as they are.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> t.codecs.Identity().encode(jnp.array([1.0, 2.0]), None)[0].tolist()
        [1.0, 2.0]
    """

    linear = True

    def encode(self, x, key):
        return (x,)

    def decode(self, payload, like, key):
        return payload[0]

    def variance(self, size):
        return 0.0


def round_trip(codec: Codec) -> Callable:
    """Return the function (x, key) -> C(x).

    Args:
        codec: C.
    """
    return lambda x, key: codec.decode(codec.encode(x, key), jax.ShapeDtypeStruct(x.shape, x.dtype), key)
