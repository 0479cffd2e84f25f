"""Requests in flight: `ask.send` and `ask.next`, up to how an engine reaches clients."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from turnout.accounting.counters import clock
from turnout.accounting.ledger import Site
from turnout.codecs.coded import Coded
from turnout.core.client import Done
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.local_methods import address
from turnout.core.messages import split_each
from turnout.core.replies import Replies
from turnout.devices.fleet import time_until
from turnout.engines.exchange.coding import read_landed
from turnout.engines.exchange.counting import exchange_events, exchange_site
from turnout.engines.exchange.flight import Flight, busy, empty, first_to_come, landed, numbers, put, taken_off
from turnout.engines.exchange.robust import robust
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.groups.statistics import attached
from turnout.engines.hubs_ask import HubsAsk
from turnout.samplers.base import Sampler

SENT = ("contacts", "cohorts", "reasks")
"""Events of an exchange that are counted where requests are sent."""


class AsyncAsk(HubsAsk):
    """Adds requests in flight to an `ask`: clients run when they are sent a request, and the reply comes when the clock says."""

    _waited: Any = None
    """How long the server waited for the last replies, in microseconds in two limbs, where that is measured."""

    def send(self, who, method, message):
        name, message = address(self.algorithm, method), attached(strongly_typed(message), self.state.statistics)
        self._refuse_in_flight(name)
        cohort = self.draw(who, method, message) if isinstance(who, Sampler) else who
        path, flight, slots = self.calls.next_path(), self.state.flight, jnp.zeros(cohort.places, "int32")
        if flight is not None:
            slots, cohort = self._placed(path, flight, cohort)
        coder, turn = self._coder(name, cohort), (self.round, self.state.exchanges)
        message = message if coder is None else coder.encoded(message)
        kept, heard = self._kept(message, cohort), coder.heard if coder is not None and coder.remembers else None
        done, answered, ends, repeats, site = self._launch(path, cohort, name, message)
        if flight is not None and done.state is None:
            # The clients of other engines hold their states themselves.
            done = done._replace(state=jax.tree.map(lambda leaf: leaf[slots], flight.done.state))
        sent, exchange = (jnp.full(cohort.places, part, "int32") for part in turn)
        new = Flight(
            name, cohort, done, answered, sent, exchange, ends, jnp.zeros((), "int32"), self._numbers(cohort), kept, heard
        )
        if flight is None:
            flight = empty(self.algorithm.addressed.places, new)
            slots, cohort = taken_off(flight, cohort)
        self._exchanged = replace(site, vectors_up=0, bytes_up=0)
        events = exchange_events(cohort, self._fresh(cohort), answered, done.queries, done.missed, repeats)
        self._count(self._exchanged, {name: events[name] for name in SENT})
        self.state = self.state._replace(flight=put(flight, slots, new), exchanges=turn[1] + 1)
        return cohort

    def _numbers(self, cohort: Cohort) -> Int[Array, " m"]:
        """Return the numbers that requests to a cohort get among all."""
        flight = self.state.flight
        return jnp.zeros(cohort.places, "int32") if flight is None else numbers(flight, cohort)

    def _launch(self, path: str, cohort: Cohort, name: str, message: PyTree) -> tuple[Done, Any, Any, Any, Site]:
        """Run a local method on a cohort.

        Args:
            path: Path of the call site.
            cohort: Clients to ask.
            name: Address of the local method.
            message: Message to the clients.

        Returns:
            What the method returned at each place, the places whose reply will come, when that is, how often each was asked
            again, and the call site.
        """
        key = self.job.seeds.fault(self.round, self.state.exchanges)
        done, answered, repeats, site = self._asked(path, cohort, name, message, key)
        number = self._numbers(cohort)
        if self.job.fleet is None:
            # Without a clock replies come in the order of the requests.
            ends = jnp.stack([number.astype("uint32"), jnp.zeros_like(number, "uint32")], axis=-1)
            return done, answered, ends, repeats, site
        sizes, now = (site.bytes_down, site.bytes_up), clock(self.state.counts)
        answered, ends = self.job.fleet.flights(cohort.ids, answered, done.queries, repeats, sizes, now, number)
        return done, answered, ends, repeats, site

    def _kept(self, message: PyTree, cohort: Cohort) -> PyTree:
        """Return the message to each place [m, ...] if messages are kept, else None."""
        if not self.job.keeps_messages:
            return None
        individual, write = split_each(message)
        return jax.vmap(write, axis_size=cohort.places)(individual)

    def next(self, count=1):
        path, flight = self.calls.next_path(), self.state.flight
        if flight is None:
            raise UserError("ask.next waits for replies, but none was asked for: call ask.send in start")
        landing, flight = self._land(flight, count)
        cohort, done = landing.cohort, landing.done
        answered = cohort.active & landing.answered
        self._commit(cohort, answered, done.state, (landing.sent, landing.exchange))
        first = jax.tree.map(lambda stacked: stacked[0], done.reply)
        site = exchange_site(path, landing.method, cohort, (), first, self.job.start)
        events = exchange_events(cohort, 0, answered, done.queries, done.missed, jnp.zeros_like(cohort.ids))
        events = {name: events[name] for name in events if name not in SENT} | {"aggregated": events["arrivals"]}
        if self.job.fleet is not None:
            events["microseconds"] = time_until(landing.ends, cohort.active, clock(self.state.counts))
        elif self._waited is not None:
            events["microseconds"] = self._waited
        self._exchanged = site
        self._count(site, events)
        values, memories = done.reply, self.state.memories
        if isinstance(self.algorithm, Coded) and self.algorithm.coding(landing.method) is not None:
            values, memories = read_landed(self.job, self.algorithm, landing, answered, memories)
        self.state = self.state._replace(flight=flight, memories=memories)
        return self._with_statistics(robust(Replies(values, cohort, answered, sent=landing.sent), self.job.robust))

    def _land(self, flight: Flight, count: int) -> tuple[Flight, Flight]:
        """Return the next `count` requests whose replies come, and those left in flight."""
        return landed(flight, first_to_come(flight, count))

    def _placed(self, path: str, flight: Flight, cohort: Cohort) -> tuple[Int[Array, " m"], Cohort]:
        """Return the places that requests to a cohort get, and the clients that get one; count what is wrong."""
        slots, fitting = taken_off(flight, cohort)
        wrong = {"unusable": busy(flight, cohort), "lost": fitting.lost - cohort.lost}
        self._count(Site(f"{path}.places", "send", cohort.selection), wrong)
        return slots, fitting

    def _refuse_in_flight(self, name: str) -> None:
        """Raise `UserError` where a request cannot be put in flight."""
        addressed, flight, job = self.algorithm.addressed, self.state.flight, self.job
        kind = type(addressed).__name__
        if flight is not None and flight.method != name:
            raise UserError(f"{kind} sends requests for {flight.method} and {name}: let one local method do both")
        if not addressed.places:
            raise UserError(f"{kind} sends requests, but its `places` are 0: say how many may be in flight")
        if job.aggregation != "plain" or (job.protection is not None and job.protection.model == "central"):
            raise UserError(f"{kind} takes replies one after another, which sums and central privacy do not hide: leave them out")
        if job.judged:
            raise UserError(f"replies to {kind} come from different models, so draws cannot be judged: leave those metrics out")
        if job.fleet is not None and job.fleet.first is not None:
            raise UserError(f"[devices] first is for exchanges, and {kind} waits for the next replies anyway: leave it out")
