"""Work of hubs with their own clients: `ask.in_hubs`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from turnout.accounting.ledger import Site
from turnout.core.errors import UserError
from turnout.core.messages import payload
from turnout.core.replies import Replies
from turnout.engines.ask import EngineAsk
from turnout.engines.exchange.in_hubs import check_sampler, clients_of, hubs_as_clients, longest, packed, rewound
from turnout.engines.exchange.linking import links
from turnout.engines.exchange.robust import robust
from turnout.engines.exchange.strong_types import strongly_typed

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

    def in_hubs(self, sizes, work, message, like, states=None):
        self._refuse_in_hubs()
        path, message, count = self.calls.next_path(), strongly_typed(message), len(sizes)
        job, before, numbers = self.job, self.state.counts, (self.state.draws, self.state.exchanges)
        none = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), like)

        def one(carry):
            hub, most, replies, states, answered = carry
            draws, exchanges = (number + APART * hub for number in numbers)
            counts, nobody = rewound(self.state.counts, before), jnp.zeros((), bool)
            self.state = self.state._replace(counts=counts, draws=draws, exchanges=exchanges, came=nobody)
            # What passes inside a hub passes no link above it.
            self.job, self._hub = replace(job, hubs=None), (hub, max(sizes))
            done = work(message, jax.tree.map(lambda leaf: leaf[hub], states))
            self.job, self._hub = job, None
            came, self.state = self.state.came, self.state._replace(came=None)
            replies = jax.tree.map(lambda all, own: all.at[hub].set(own), replies, done.reply)
            states = jax.tree.map(lambda all, own: all.at[hub].set(jnp.where(came, own, all[hub])), states, done.state)
            return hub + 1, longest(self.state.counts, most), replies, states, answered.at[hub].set(came)

        first = jnp.zeros((), "int32"), before, none, states, jnp.zeros(count, bool)
        _, most, replies, states, answered = self._each_hub(sizes, one, first)
        draws, exchanges = (number + APART * count for number in numbers)
        self.state = self.state._replace(counts=rewound(self.state.counts, most), draws=draws, exchanges=exchanges)
        cohort, clients = hubs_as_clients(job.population, count)
        if job.hubs is not None:
            site = Site(path, "link", cohort.selection, bytes_down=payload(message), bytes_up=payload(like))
            asked, zero = replace(cohort, ids=clients), jnp.zeros((), "int32")
            for link in links(job.hubs, site, 0, asked, zero, answered, None, job.fleet is not None):
                self._count(*link)
        return self._from_hubs(path, robust(Replies(replies, cohort, answered), job.robust)), states

    def _each_hub(self, sizes: tuple[int, ...], one: Callable, carry: tuple) -> tuple:
        """Return the carry after `one` for each hub."""
        return self.loop(len(sizes), one, carry)

    def _from_hubs(self, path: str, replies: Replies) -> Replies:
        """Return the replies of the hubs as the server receives them."""
        return replies

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
