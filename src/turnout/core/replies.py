"""The replies to one exchange, and their sums."""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PyTree

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.lazy_stack import LazyStack, release_pages
from turnout.core.records import record
from turnout.core.tree import positive, where

Weight = Literal["share", "weight"]
"""Weights of a sum of replies: lambda_i, or lambda_i / p_i."""


@record
class Replies:
    """The replies to one exchange, stacked over the cohort's m places.

    `average` is unbiased for the weighted mean over all clients; `mean` is the weighted mean over those that answered. Both
    keep one reply in memory at a time where they can.

    Args:
        held: The replies [m, ...] as the engine holds them, arrays or `LazyStack`s; algorithms read `values`.
        cohort: Clients that were asked.
        answered: Places whose reply arrived [m].
        everyone: Replies of all n clients [n, ...], where a metric compares them; for engines.
        losses: Losses [m], for a sampler that learns from them; for engines.
        sent: Round in which each was sent [m]; None for replies to an exchange, which came at once.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> @t.record
        ... class Median(t.Algorithm):
        ...     sampler: t.Sampler
        ...
        ...     def round(self, ask, x):
        ...         replies = ask(self.sampler, self.slope, x)
        ...         return x - 0.1 * jnp.median(replies.values, axis=0)
        ...
        ...     @t.on_client
        ...     def slope(self, client, x):
        ...         return t.Done(client.grad(x), queries=1)
        >>> problem = t.Quadratic.random(clients=10, dimension=2, seed=0)
        >>> t.run(Median(t.Nice(3)), problem, rounds=2).ledger.totals()["arrivals"]
        6
    """

    held: PyTree
    cohort: Cohort
    answered: Bool[Array, " m"]
    everyone: PyTree = None
    losses: Float[Array, " m"] | None = None
    sent: Int[Array, " m"] | None = None

    @property
    def lazy(self) -> bool:
        """Whether replies are stored apart, and read one at a time."""
        return any(isinstance(leaf, LazyStack) for leaf in jax.tree.leaves(self.held))

    @property
    def values(self) -> PyTree:
        """All replies in memory [m, ...]; `mean`, `total` and `average` need less."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, LazyStack) else leaf, self.held)

    def each(self, of: Callable) -> PyTree:
        """Return of(r_i) for each reply r_i, stacked over the places."""
        if not self.lazy:
            return jax.vmap(of)(self.held)
        leaves, results = jax.tree.leaves(self.held), []
        for k in range(self.cohort.places):
            results.append(jax.block_until_ready(of(jax.tree.map(lambda leaf, k=k: leaf[k], self.held))))
            for leaf in leaves:
                release_pages(leaf[k])
        return jax.tree.map(lambda *parts: jnp.stack(parts), *results)

    def map(self, change: Callable) -> "Replies":
        """Return these replies with each r_i replaced by change(i, r_i), i being the client's id."""
        values = jax.vmap(change)(self.cohort.ids, self.values)
        everyone = self.everyone
        if everyone is not None:
            ids = jnp.arange(jax.tree.leaves(everyone)[0].shape[0], dtype=self.cohort.ids.dtype)
            everyone = jax.vmap(change)(ids, everyone)
        return replace(self, held=values, everyone=everyone)

    def scaled(self, factors: Float[Array, " m"]) -> "Replies":
        """Return these replies with each r_i times the factor of its place.

        Args:
            factors: The factors [m].
        """

        def scale(leaf):
            return leaf * jnp.asarray(factors, leaf.dtype).reshape(-1, *(1,) * (leaf.ndim - 1))

        return replace(self, held=jax.tree.map(scale, self.values), everyone=None)

    def average(self) -> PyTree:
        """Return sum_{i answered} (lambda_i / p_i) r_i, unbiased for the weighted mean sum_i lambda_i r_i over all clients.

        A reply that is lost, or comes later than `turnout.devices` allow, counts as zero, and the weights stay as they are.

        Raises:
            UserError: Where the inclusion probabilities p_i are not known: for a delegate, or a biased sampler.
        """
        if self.cohort.selection == "delegate":
            raise UserError("a delegate's reply is no unbiased average over all clients: use mean()")
        if self.cohort.biased:
            raise UserError(
                "a biased sampler does not go with an unbiased average: take another sampler, or one that uses mean()"
            )
        return self.summed("weight")

    def total(self) -> PyTree:
        """Return sum lambda_i r_i over the clients that answered."""
        return self.summed("share")

    def mean(self) -> PyTree:
        """Return sum lambda_i r_i / sum lambda_i over the clients that answered; zero if none did."""
        # The weights sum to one, so the mean of a single reply is that reply to the bit.
        return self._weighted_sum(self.cohort.share / positive(self._answered_share()))

    def summed(self, by: Weight) -> PyTree:
        """Return the sum over the clients that answered of r_i times the cohort's `by` of i, its share or its weight."""
        return self._weighted_sum(getattr(self.cohort, by))

    def _answered_share(self) -> Float[Array, ""]:
        """Return sum lambda_i over the clients that answered."""
        return jnp.sum(jnp.where(self.answered, self.cohort.share, 0))

    def _weighted_sum(self, weight: Float[Array, " m"]) -> PyTree:
        weight = jnp.where(self.answered, weight, 0)

        def weighted(reply):
            if isinstance(reply, LazyStack) and not isinstance(weight, Tracer):
                return reply.sum(np.asarray(weight))
            reply = jnp.asarray(reply)
            # An empty place may hold any value, NaN included, so its reply is set to zero and not only weighted by zero.
            held = self.answered.reshape((-1,) + (1,) * (reply.ndim - 1))
            return jnp.tensordot(weight.astype(reply.dtype), jnp.where(held, reply, 0), axes=1)

        return jax.tree.map(weighted, self.held)


class DecodedReplies(Replies):
    """Replies that are decoded when they are read, one at a time: r_i = decode(i, payload_i).

    Args:
        payloads: What the clients sent, stored apart.
        decode: Function of a client's id and its payload.
    """

    payloads: Replies
    decode: Callable

    def __init__(self, payloads: Replies, decode: Callable):
        own = {"payloads": payloads, "decode": decode, "held": None, "everyone": None}
        shared = {name: getattr(payloads, name) for name in ("cohort", "answered", "losses")}
        for name, value in {**own, **shared}.items():
            object.__setattr__(self, name, value)

    @property
    def lazy(self):
        return True

    @property
    def values(self):
        return self.each(lambda reply: reply)

    def each(self, of):
        ids = iter(self.cohort.ids)
        return self.payloads.each(lambda payload: of(self.decode(next(ids), payload)))

    def map(self, change):
        return self._read().map(change)

    def scaled(self, factors):
        return self._read().scaled(factors)

    def _read(self) -> Replies:
        """Return the replies with all of them in memory."""
        return Replies(self.values, self.cohort, self.answered, losses=self.losses)

    def _weighted_sum(self, weight):
        scales, sums = iter(jnp.where(self.answered, weight, 0)), []

        def add(reply):
            scale = next(scales)
            # An empty place may hold any value, NaN included.
            part = jax.tree.map(lambda leaf: jnp.where(scale != 0, scale.astype(leaf.dtype) * leaf, 0), reply)
            sums[:] = [part if not sums else jax.tree.map(jnp.add, sums[0], part)]
            return jnp.zeros(())

        self.each(add)
        return sums[0]


class SumsOnly(Replies):
    """Replies of which only sums can be read; `why` is the error of an attempt to read a single one.

    Args:
        cohort: Clients that were asked.
        answered: Places whose reply arrived [m].
        **own: The other fields of a subclass, by name.
    """

    why: ClassVar[str]

    def __init__(self, cohort: Cohort, answered: Bool[Array, " m"], **own):
        for name, value in {"cohort": cohort, "answered": answered, **own}.items():
            object.__setattr__(self, name, value)

    def mean(self):
        total = positive(self._answered_share())
        return jax.tree.map(lambda leaf: leaf / total.astype(leaf.dtype), self.summed("share"))

    @property
    def values(self):
        raise UserError(self.why)

    def each(self, of):
        raise UserError(self.why)


def if_any(replies: Replies, new: PyTree, old: PyTree) -> PyTree:
    """Return `new` if anybody answered, else `old`.

    Args:
        replies: Replies of the cohort.
        new: Result if a client answered.
        old: Result if none did, with the same structure.
    """
    return where(jnp.any(replies.answered), new, old)
