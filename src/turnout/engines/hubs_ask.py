"""Work of hubs with their own clients: `ask.in_hubs`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int, PyTree

from turnout.accounting.ledger import Site
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.messages import payload
from turnout.core.replies import Replies
from turnout.engines.ask import EngineAsk, State
from turnout.engines.exchange.in_hubs import check_sampler, clients_of, hubs_as_clients, longest, packed, rewound
from turnout.engines.exchange.linking import links
from turnout.engines.exchange.robust import robust
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.groups.statistics import attached

APART = 2**16
"""How far the numbers of draws and exchanges of two hubs are apart, so that no hub's random keys depend on another's work."""


class HubsAsk(EngineAsk):
    """Adds the work of hubs to an `ask`: one hub after the other has its turn, and counts are of all at once."""

    _hub: tuple[Any, int] | None = None
    """The hub at work, and the largest number of clients of a hub."""

    def _drawable(self, sampler):
        population = super()._drawable(sampler)
        return population if self._hub is None else clients_of(population, self._hub[0])

    def _draw(self, sampler, state, key, population):
        cohort = super()._draw(sampler, state, key, population)
        return cohort if self._hub is None else packed(cohort, self._hub[1])

    def __call__(self, who, method, message):
        replies = super().__call__(who, method, message)
        if self.state.came is not None:
            self.state = self.state._replace(came=self.state.came | jnp.any(replies.answered))
        return replies

    def in_hubs(self, sizes, message, like, states=None):
        self._refuse_in_hubs()
        path, message, count, first = self.calls.next_path(), strongly_typed(message), len(sizes), self.state
        like = attached(like, first.statistics)
        self._refuse_unbounded(like)
        replies, states, answered = self._side_by_side(path, sizes, message, like, states)
        if self.job.faults is not None and self.job.faults.bounds:
            replies, accepted = jax.vmap(self.job.faults.bound)(replies)
            answered &= accepted
        self._begin(count, first._replace(counts=self.state.counts))
        self.state = self.state._replace(came=None)
        cohort, clients = hubs_as_clients(self.job.population, count)
        sent = payload(attached(message, first.statistics)), payload(like)
        self._count_links(path, replace(cohort, ids=clients), answered, *sent)
        self._weight = None
        replies = self._with_statistics(robust(Replies(replies, cohort, answered), self.job.robust))
        return self._from_hubs(path, replies), states

    def _side_by_side(
        self, path: str, sizes: tuple[int, ...], message: PyTree, like: PyTree, states: PyTree
    ) -> tuple[PyTree, PyTree, Bool[Array, " hubs"]]:
        """Have the hubs work; the counts are then those of all of them at work at once.

        Args:
            path: Path of the call.
            sizes: Number of clients of each hub.
            message: What the server sends to each hub.
            like: Arrays shaped like the reply of one hub.
            states: States of the hubs [hubs, ...].

        Returns:
            Replies and new states [hubs, ...], and which hubs reply.
        """
        first, key, count = self.state, self.key(), len(sizes)

        def one(carry):
            hub, most, replies, states, answered = carry
            reply, new = self._at_work(hub, max(sizes), first, key, message, jax.tree.map(lambda leaf: leaf[hub], states))
            came = self.state.came
            replies = jax.tree.map(lambda all, own: all.at[hub].set(own), replies, reply)
            states = jax.tree.map(lambda all, own: all.at[hub].set(jnp.where(came, own, all[hub])), states, new)
            self.state = self.state._replace(came=None)
            return hub + 1, longest(self.state.counts, most), replies, states, answered.at[hub].set(came)

        none = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), like)
        carry = jnp.zeros((), "int32"), first.counts, none, states, jnp.zeros(count, bool)
        _, most, replies, states, answered = self._each_hub(sizes, one, carry)
        self.state = self.state._replace(counts=rewound(self.state.counts, most))
        return replies, states, answered

    def _at_work(
        self, hub: Int[ArrayLike, ""], places: int, first: State, key, message: PyTree, state: PyTree
    ) -> tuple[PyTree, PyTree]:
        """Return the reply of a hub, with its statistics, and its new state.

        Args:
            hub: Number of the hub.
            places: The largest number of clients of a hub.
            first: State before the first hub began.
            key: The server's random key before the call.
            message: What the server sends to each hub.
            state: State of the hub.
        """
        self._begin(hub, first)
        # What passes inside a hub passes no link above it.
        job, self.job, self._hub = self.job, replace(self.job, hubs=None), (hub, places)
        done = self.algorithm.addressed.in_hub(self, jax.random.fold_in(key, hub), message, state)
        self.job, self._hub = job, None
        return attached(done.reply, self.state.statistics), done.state

    def _begin(self, hub: Int[ArrayLike, ""], first: State) -> None:
        """Begin the work of a hub: what hubs do side by side begins where it was at `first`, and keys are its own."""
        self.state = self.state._replace(
            counts=rewound(self.state.counts, first.counts),
            draws=first.draws + APART * hub,
            exchanges=first.exchanges + APART * hub,
            statistics=first.statistics,
            came=jnp.zeros((), bool),
        )

    def _count_links(self, path: str, hubs: Cohort, answered: Bool[Array, " hubs"], down: int, up: int) -> None:
        """Count what passes above the hubs, each of which one of its clients stands for.

        Args:
            path: Path of the call.
            hubs: Clients that stand for the hubs.
            answered: Hubs that reply.
            down: Payload bytes of the message.
            up: Payload bytes of a reply.
        """
        if self.job.hubs is None:
            return
        site, zero = Site(path, "link", hubs.selection, bytes_down=down, bytes_up=up), jnp.zeros((), "int32")
        for link in links(self.job.hubs, site, 0, hubs, hubs, zero, answered, None, self.job.fleet is not None):
            self._count(*link)

    def _each_hub(self, sizes: tuple[int, ...], one: Callable, carry: tuple) -> tuple:
        """Return the carry after `one` for each hub."""
        return self.loop(len(sizes), one, carry)

    def _from_hubs(self, path: str, replies: Replies) -> Replies:
        """Return the replies of the hubs as the server receives them."""
        return replies

    def _refuse_unbounded(self, like: PyTree) -> None:
        """Raise `UserError` where hubs send payloads of a codec, whose norms say nothing, and norms are to be bounded."""
        sent, vector = ([jnp.shape(leaf) for leaf in jax.tree.leaves(tree)] for tree in (like, self.job.start))
        if self.job.faults is not None and self.job.faults.bounds and sent[: len(vector)] != vector:
            raise UserError("[faults] norm and clip bound what hubs find, and up compresses it: leave one of both out")

    def _refuse_in_hubs(self) -> None:
        """Raise `UserError` where hubs at work do not fit the run."""
        if self.job.protection is not None:
            raise UserError(
                "[privacy] accounts for cohorts that the server draws, and here hubs draw theirs: leave one of both out"
            )
        if self.state.quality is not None:
            raise UserError(
                "metrics of the draws are about cohorts that the server draws, and here hubs draw theirs: leave them out"
            )
        for sampler in self.draws.samplers:
            check_sampler(sampler)
