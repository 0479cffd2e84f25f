"""Rounds of a hub whose members are hubs: it plays them by messages to these, or hands on that these are to play."""

from functools import partial
from threading import Lock
from typing import Any

import jax
import numpy as np

from turnout.engines.flower.clients import Clients
from turnout.engines.flower.hub_engine import HubAsk, terms_of
from turnout.engines.flower.hub_mailbox import SHARE
from turnout.engines.flower.hub_members import HubsOfHub
from turnout.engines.flower.hub_play import Order, read_orders
from turnout.engines.flower.hub_relay import Below, LowestHubs, packed_below
from turnout.engines.flower.hub_serving import ServingAsk
from turnout.engines.flower.hub_work import Work
from turnout.engines.flower.hubs_at_work import HubsAtWork
from turnout.engines.inputs import Job
from turnout.engines.reply_usage import survey
from turnout.io.serialization import Buffer


class ServingByHubs(ServingAsk, HubAsk):
    """Answers `ask` in a hub that plays a round of the server by messages to its own hubs, one of which may play it in turn."""

    @property
    def done(self):
        return super().done + self.at_work.exchanges


class HubRelay:
    """Has the lowest hubs below a hub play their rounds, and answers requests for what comes of them.

    Where the server takes their mean, one reply goes up: that of the hubs below this one.

    Args:
        nodes: The clients of the hub, which are reached through the hubs below it.
        job: Inputs of the run, with shapes in the place of rows, and with the hubs below this one.
        algorithm: The algorithm, bound to the problem.
        clients: Reaches the clients of the hub.
        double: Whether the run computes in 64 bits.
    """

    def __init__(self, nodes: HubsOfHub, job: Job, algorithm, clients: Clients, double: bool):
        self.nodes, self.job, self.clients, self.double = nodes, job, clients, double
        strata, shares = np.asarray(job.population.strata), np.asarray(job.population.shares)
        self.surveyed = survey(job, algorithm)
        self.own = {int(hub): np.flatnonzero(strata == hub).tolist() for hub in np.unique(strata[nodes.own])}
        self.weights = {hub: float(shares[clients].sum()) for hub, clients in self.own.items()}
        self.work, self.lock = Work(), Lock()

    def answer(self, header: bytes, body: Buffer, digest: bytes) -> bytes:
        """Return the reply to a request to have the lowest hubs play, or how far they are.

        Args:
            header: Header of the request.
            body: The message.
            digest: SHA-256 digest of the body.
        """
        sizes = {hub: len(clients) for hub, clients in self.own.items()}
        orders = read_orders(header, sizes, self.surveyed.hubs)
        first = next(iter(orders.values()))
        return self.work.answer(header + digest, first.seconds, partial(self._play, first, orders, body))

    def _play(self, first: Order, orders: dict[int, Order], body: Buffer) -> bytes:
        with self.lock, jax.enable_x64(self.double):
            self.clients.mailbox.deadline = SHARE * first.seconds
            at_work = HubsAtWork.of(self.nodes, self.clients.skips)
            self.work.done = lambda: at_work.exchanges
            call, hubs = self.surveyed.in_hubs_at(first.path), self.job.hubs
            summed, asks_again = not hubs.forwards(call.path), self.job.faults is not None and self.job.faults.repeats
            own = {hub: self.own[hub] for hub in orders}
            terms = terms_of(self.job.start, call.reply.tree, self.surveyed.sites, first.path, own, asks_again)
            above: Any = {hub: self.nodes.of[clients[0]] for hub, clients in own.items()}
            orders = {hub: order._replace(seconds=at_work.seconds) for hub, order in orders.items()}
            lowest = LowestHubs(at_work, above, len(hubs.counts) == 1, summed)
            results = lowest.play(orders, bytes(body), terms, asks_again)
            below = Below(results.played, results.why)
            return packed_below(below, self.weights if summed else None, self.job.start)
