"""The replies to one exchange, and the sums over them."""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, PyTree

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.lazy_stack import Stack, leave
from turnout.core.records import record
from turnout.core.tree import positive

Weight = Literal["share", "weight"]
"""What a sum of replies weighs them by: lambda_i, or lambda_i / p_i."""


@record
class Replies:
    """The replies to one exchange, stacked over the cohort's m places; `answered` marks the places that hold one.

    For an engine's eyes only: `held` is what `values` are made of, arrays or a `Stack` for each, `everyone` is what all n clients
    would have replied, where metrics judge the sampler by it, and `losses` [m] came along for a sampler that learns from them.
    """

    held: PyTree
    cohort: Cohort
    answered: Bool[Array, " m"]
    everyone: PyTree = None
    losses: Float[Array, " m"] | None = None

    @property
    def values(self) -> PyTree:
        """All replies in memory, [m, ...]; whoever needs a sum only is better off with `mean`, `total` or `average`."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, Stack) else leaf, self.held)

    def each(self, of: Callable) -> PyTree:
        """Return of(r_i) of each reply r_i, stacked over the places."""
        leaves = jax.tree.leaves(self.held)
        if not any(isinstance(leaf, Stack) for leaf in leaves):
            return jax.vmap(of)(self.held)
        found = []
        for k in range(self.cohort.places):
            found.append(jax.block_until_ready(of(jax.tree.map(lambda leaf, k=k: leaf[k], self.held))))
            for leaf in leaves:
                leave(leaf[k])
        return jax.tree.map(lambda *parts: jnp.stack(parts), *found)

    def map(self, change: Callable) -> "Replies":
        """Return these replies with change(i, r_i) in the place of each r_i, i being the client's id."""
        values = jax.vmap(change)(self.cohort.ids, self.values)
        everyone = self.everyone
        if everyone is not None:
            ids = jnp.arange(jax.tree.leaves(everyone)[0].shape[0], dtype=self.cohort.ids.dtype)
            everyone = jax.vmap(change)(ids, everyone)
        return replace(self, held=values, everyone=everyone)

    def average(self) -> PyTree:
        """sum_{i answered} (lambda_i / p_i) r_i: unbiased for the weighted mean sum_i lambda_i r_i over all clients."""
        if self.cohort.selection == "delegate":
            raise UserError("a delegate's reply is no unbiased average over all clients: use mean()")
        if self.cohort.biased:
            raise UserError(
                "a biased sampler does not go with an unbiased average: take another sampler, or one that uses mean()"
            )
        return self.summed("weight")

    def total(self) -> PyTree:
        """sum lambda_i r_i over the clients that answered."""
        return self.summed("share")

    def mean(self) -> PyTree:
        """sum lambda_i r_i / sum lambda_i over the clients that answered; zero if none did."""
        # Weights that sum to one: of a single client the mean is its reply to the bit.
        return self._weighed(self.cohort.share / positive(self._heard()))

    def summed(self, by: Weight) -> PyTree:
        """The sum over the clients that answered of r_i times the number that the cohort holds for them as `by`."""
        return self._weighed(getattr(self.cohort, by))

    def _heard(self) -> Float[Array, ""]:
        """sum lambda_i over the clients that answered."""
        return jnp.sum(jnp.where(self.answered, self.cohort.share, 0))

    def _weighed(self, weight: Float[Array, " m"]) -> PyTree:
        weight = jnp.where(self.answered, weight, 0)

        def weigh(reply):
            if isinstance(reply, Stack) and not isinstance(weight, Tracer):
                return reply.sum(np.asarray(weight))
            reply = jnp.asarray(reply)
            # An empty place may hold anything, NaN included, so its reply is cleared and not only weighted by zero.
            held = self.answered.reshape((-1,) + (1,) * (reply.ndim - 1))
            return jnp.tensordot(weight.astype(reply.dtype), jnp.where(held, reply, 0), axes=1)

        return jax.tree.map(weigh, self.held)


class Sealed(Replies):
    """Replies that give out sums alone; `why` is what those are told who would look at each."""

    why: ClassVar[str]

    def mean(self):
        total = positive(self._heard())
        return jax.tree.map(lambda leaf: leaf / total.astype(leaf.dtype), self.summed("share"))

    @property
    def values(self):
        raise UserError(self.why)

    def each(self, of):
        raise UserError(self.why)


def if_any(replies: Replies, new: PyTree, old: PyTree) -> PyTree:
    """Return `new` if anybody answered, else `old`."""
    return jax.tree.map(lambda new, old: jnp.where(jnp.any(replies.answered), new, old), new, old)
