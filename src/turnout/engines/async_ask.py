"""Requests in flight: `ask.send` and `ask.next`, up to how an engine reaches clients."""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from turnout.accounting.counters import clock
from turnout.accounting.ledger import Site
from turnout.codecs.coded import Coded
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.local_methods import address
from turnout.core.replies import Replies
from turnout.devices.fleet import time_until
from turnout.engines.ask import EngineAsk
from turnout.engines.exchange.counting import exchange_events, exchange_site
from turnout.engines.exchange.flight import Flight, busy, empty, first_to_come, landed, put, taken_off
from turnout.engines.exchange.robust import robust
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.samplers.base import Sampler

SENT = ("contacts", "cohorts", "reasks")
"""Events of an exchange that are counted where requests are sent."""


class AsyncAsk(EngineAsk):
    """Adds requests in flight to an `ask`: clients run when they are sent a request, and the reply comes when the clock says."""

    def send(self, who, method, message):
        name, message = address(self.algorithm, method), strongly_typed(message)
        self._refuse_in_flight(name)
        cohort = self.draw(who, method, message) if isinstance(who, Sampler) else who
        path, flight, slots = self.calls.next_path(), self.state.flight, None
        if flight is not None:
            slots, cohort = self._placed(path, flight, cohort)
        turn = self.round, self.state.exchanges
        done, answered, repeats, site = self._asked(path, cohort, name, message, self.job.seeds.fault(*turn))
        if flight is None:
            flight = empty(self.algorithm.addressed.places, name, cohort, done)
            slots, cohort = taken_off(flight, cohort)
        # Without a clock replies come in the order of the requests.
        numbers = flight.count + jnp.arange(cohort.places, dtype="int32")
        ends = jnp.stack([numbers.astype("uint32"), jnp.zeros_like(numbers, "uint32")], axis=-1)
        if self.job.fleet is not None:
            sizes, now = (site.bytes_down, site.bytes_up), clock(self.state.counts)
            answered, ends = self.job.fleet.flights(cohort.ids, answered, done.queries, repeats, sizes, now)
        self._exchanged = replace(site, vectors_up=0, bytes_up=0)
        events = exchange_events(cohort, self._fresh(cohort), answered, done, repeats)
        self._count(self._exchanged, {name: events[name] for name in SENT})
        if done.state is None:
            # The clients of other engines hold their states themselves.
            done = done._replace(state=jax.tree.map(lambda leaf: leaf[slots], flight.done.state))
        flight = put(flight, slots, cohort, done, answered, turn, ends)
        self.state = self.state._replace(flight=flight, exchanges=turn[1] + 1)
        return cohort

    def next(self, count=1):
        path, flight = self.calls.next_path(), self.state.flight
        if flight is None:
            raise UserError("ask.next waits for replies, but none was asked for: call ask.send in start")
        flight, places = self._next(flight, count)
        landing, flight = landed(flight, places)
        cohort, done = landing.cohort, landing.done
        answered = cohort.active & landing.answered
        self._commit(cohort, answered, done.state, (landing.sent, landing.exchange))
        first = jax.tree.map(lambda stacked: stacked[0], done.reply)
        site = exchange_site(path, landing.method, cohort, (), first, self.job.start)
        events = exchange_events(cohort, 0, answered, done, jnp.zeros_like(cohort.ids))
        events = {name: events[name] for name in events if name not in SENT} | {"aggregated": events["arrivals"]}
        if self.job.fleet is not None:
            events["microseconds"] = time_until(landing.ends, cohort.active, clock(self.state.counts))
        elif self._measured is not None:
            events["microseconds"] = self._measured
        self._exchanged = site
        self._count(site, events)
        self.state = self.state._replace(flight=flight)
        return robust(Replies(done.reply, cohort, answered, sent=landing.sent), self.job.robust)

    def _next(self, flight: Flight, count: int) -> tuple[Flight, Int[Array, " count"]]:
        """Return the requests in flight with the replies that came, and the places of the next `count` of them."""
        return flight, first_to_come(flight, count)

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
        if isinstance(self.algorithm, Coded):
            raise UserError(f"requests of {kind} are in flight, which [exchange] does not compress: leave it out")
        if job.aggregation != "plain" or (job.protection is not None and job.protection.model == "central"):
            raise UserError(f"{kind} takes replies one after another, which sums and central privacy do not hide: leave them out")
        if job.judged:
            raise UserError(f"replies to {kind} come from different models, so draws cannot be judged: leave those metrics out")
        if job.fleet is not None and job.fleet.first is not None:
            raise UserError(f"[devices] first is for exchanges, and {kind} waits for the next replies anyway: leave it out")
