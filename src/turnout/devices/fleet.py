"""The devices of n clients as arrays, and the clock of an exchange with some of them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt

from turnout.accounting.counters import limbs, whole
from turnout.core.errors import UserError
from turnout.core.records import record, static
from turnout.core.rows import rows_at

LONGEST = 2.0**50
"""Most microseconds that one part of a client's time counts, 36 years."""

NEVER = 2**62

Size = int | Float[Array, "..."]
"""Bytes of a message to all clients, or to each [m]."""


class Timing(NamedTuple):
    """What the clock says of an exchange.

    Args:
        on_time: Places whose reply is waited for and came [m].
        microseconds: How long the exchange took, in two 32-bit limbs (low, high).

    Examples:
        >>> import numpy as np, turnout as t
        >>> t.devices.Timing(on_time=np.array([True, False]), microseconds=np.array([500, 0], np.uint32)).on_time.sum()
        np.int64(1)
    """

    on_time: Bool[Array, " m"]
    microseconds: UInt[Array, " 2"]


@record
class Fleet:
    """The devices of n clients, in microseconds, and which of their replies are not waited for.

    Client i needs t_i = latency_i + b_down down_i + q query_i + b_up up_i for q queries, a message of b_down bytes and a reply of
    b_up. Each term is rounded to whole microseconds and their sum is exact, so that every engine has the same clock.

    Args:
        rates: latency_i, down_i, up_i and query_i: the time of an exchange without payload, there and back, of a byte to the
            client, of a byte to the server and of an oracle call [n, 4]. One array, since a client is then one place in memory.
        deadline: Time after which a reply is lost; None: never.
        first: Replies that an exchange waits for; None: all.
        arrivals: When each request in flight landed, in two limbs, and 1 where its reply is used, by its number [k, 3]; None: as
            the speeds say.

    Examples:
        >>> import numpy as np, turnout as t
        >>> t.devices.Fleet(rates=np.array([[0, 0, 0, 1e6], [5e5, 0, 0, 2e6]])).rates.shape
        (2, 4)
    """

    rates: Float[Array | np.ndarray, "n 4"]
    deadline: Float[Array, ""] | float | None = None
    first: int | None = static(default=None)
    arrivals: UInt[Array | np.ndarray, "k 3"] | None = None

    def times(self, ids: Int[Array, " m"], queries: Int[Array, " m"], down: Size, up: Size) -> Int[Array, " m"]:
        """Return t_i in whole microseconds, 64-bit integers: to be called where these are enabled.

        Args:
            ids: Ids of the clients [m].
            queries: Their oracle calls [m].
            down: Bytes of the message.
            up: Bytes of the reply.
        """
        rates = rows_at(jnp.asarray(self.rates), ids).astype(float)
        sizes = jnp.stack(jnp.broadcast_arrays(*(jnp.asarray(size, float) for size in (1, down, up, queries))), axis=-1)
        return jnp.sum(jnp.rint(jnp.minimum(rates * sizes, LONGEST)).astype("int64"), axis=-1)

    def exchange(
        self,
        ids: Int[Array, " m"],
        active: Bool[Array, " m"],
        arrived: Bool[Array, " m"],
        queries: Int[Array, " m"],
        repeats: Int[Array, " m"],
        sizes: tuple[Size, Size],
    ) -> Timing:
        """Return the replies of an exchange that are on time, and its duration.

        On time are the replies before the deadline, and of these the `first` ones; of several at the same time, those at the
        first places. The exchange ends with the last of the `first`. Without `first`, or if fewer come, it ends when every reply
        has come or the deadline has passed. A reply that is lost otherwise is waited for until the deadline, or without one until
        it would have come.

        Args:
            ids: Ids of the clients [m].
            active: Places that hold a client [m].
            arrived: Places whose reply is not lost otherwise [m].
            queries: Oracle calls of one try [m].
            repeats: How often each was asked again [m].
            sizes: Bytes of a message and of a reply.
        """
        with jax.enable_x64(True):
            times, on_time, ends = self._waits(ids, arrived, queries, repeats, sizes)
            if self.first is not None:
                order = jnp.argsort(jnp.where(on_time, times, NEVER), stable=True)
                rank = jnp.zeros_like(order).at[order].set(jnp.arange(order.size))
                enough = jnp.sum(on_time) >= self.first
                on_time = on_time & (rank < self.first)
                ends = jnp.where(enough & ~on_time, 0, ends)
            longest = jnp.max(jnp.where(active, ends, 0))
            return Timing(on_time, limbs(longest))

    def _waits(self, ids, arrived, queries, repeats, sizes) -> tuple[Int[Array, " m"], Bool[Array, " m"], Int[Array, " m"]]:
        """Return when each reply would come, whether that is before the deadline, and how long it is waited for."""
        times = self.times(ids, queries, *sizes)
        tries = 1 + jnp.asarray(repeats, "int64")
        times = jnp.minimum(times, int(LONGEST) // tries) * tries
        limit = NEVER if self.deadline is None else jnp.rint(jnp.asarray(self.deadline, float)).astype("int64")
        ends = times if self.deadline is None else jnp.where(arrived, jnp.minimum(times, limit), limit)
        return times, jnp.asarray(arrived) & (times <= limit), ends

    def flights(
        self,
        ids: Int[Array, " m"],
        arrived: Bool[Array, " m"],
        queries: Int[Array, " m"],
        repeats: Int[Array, " m"],
        sizes: tuple[Size, Size],
        now: UInt[Array, " 2"],
        numbers: Int[Array, " m"],
    ) -> tuple[Bool[Array, " m"], UInt[Array, "m 2"]]:
        """Return which replies come before the deadline, and when each request sent now is no longer waited for.

        Args:
            ids: Ids of the clients [m].
            arrived: Places whose reply is not lost otherwise [m].
            queries: Oracle calls of one try [m].
            repeats: How often each was asked again [m].
            sizes: Bytes of a message and of a reply.
            now: The time on the clock, in two limbs.
            numbers: Numbers of the requests [m].
        """
        if self.arrivals is not None:
            row = jnp.asarray(self.arrivals).at[numbers].get(mode="fill", fill_value=np.uint32(2**31 - 1))
            return jnp.asarray(arrived) & (row[:, 2] == 1), row[:, :2]
        with jax.enable_x64(True):
            _, on_time, ends = self._waits(ids, arrived, queries, repeats, sizes)
            return on_time, jnp.moveaxis(limbs(ends + whole(now)), 0, -1)

    def check_first(self, places: int, method: str) -> None:
        """Raise `UserError` where more replies are waited for than a cohort has places.

        Args:
            places: Places of the cohort.
            method: Name of the local method.
        """
        if self.first is not None and self.first > places:
            raise UserError(
                f"[devices] first = {self.first} waits for more replies than the {places} of a cohort that runs {method}: take a "
                "smaller one, or larger cohorts"
            )

    def check_deadline(self, down: int, up: int, method: str) -> None:
        """Raise `UserError` where the messages alone take every client longer than the deadline.

        Args:
            down: Bytes of a message.
            up: Bytes of a reply.
            method: Name of the local method.
        """
        if self.deadline is None:
            return
        latency, of_down, of_up, _ = self.rates.T
        needed = float(jnp.min(latency + down * of_down + up * of_up)) * 1e-6
        if needed > float(self.deadline) * 1e-6:
            raise UserError(
                f"[devices] deadline = {float(self.deadline) * 1e-6:g} s is too short for {method}, whose messages take the "
                f"fastest client {needed:g} s: take a longer one"
            )


def time_until(ends: UInt[Array, "m 2"], active: Bool[Array, " m"], now: UInt[Array, " 2"]) -> UInt[Array, " 2"]:
    """Return the time from now until the last end of the active places, 0 if that is past, in two limbs.

    Args:
        ends: Times in two limbs [m, 2].
        active: Places that count [m].
        now: The time now, in two limbs.
    """
    with jax.enable_x64(True):
        last = jnp.max(jnp.where(active, whole(ends), 0))
        return limbs(jnp.maximum(last - whole(now), 0))
