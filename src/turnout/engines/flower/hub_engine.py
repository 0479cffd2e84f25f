"""Rounds with clients that are connected to hubs, which add replies up where one sum suffices, or play by themselves."""

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PyTree

from turnout.accounting.counters import Counts, in_limbs, limbs, whole
from turnout.accounting.ledger import COUNTERS, Site
from turnout.codecs.parts import Shape
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.replies import Weight
from turnout.engines.encryption import add
from turnout.engines.exchange.counting import CallSites
from turnout.engines.exchange.drawing import Draws
from turnout.engines.exchange.in_hubs import side_by_side
from turnout.engines.flower.engine import Flower, FlowerAsk
from turnout.engines.flower.greeting import GREET_AGAIN
from turnout.engines.flower.hub_mailbox import SUM, HubMailbox
from turnout.engines.flower.hub_members import ClientsOfHubs
from turnout.engines.flower.hub_messages import Part, Whole
from turnout.engines.flower.hub_play import Order, Played, Terms, packed_order, table_of
from turnout.engines.flower.hub_relay import LowestHubs
from turnout.engines.flower.hub_serving import packed_cohort, served_sites
from turnout.engines.flower.hubs_at_work import HubsAtWork, Results
from turnout.engines.flower.reply_checks import validate_reply
from turnout.engines.groups.statistics import attached
from turnout.engines.hubs_ask import APART
from turnout.engines.messaging import Request, SummedReplies, added
from turnout.engines.reply_usage import Survey, weight_of
from turnout.engines.request import FIRST
from turnout.engines.sealing import Seal
from turnout.hubs import Layout
from turnout.hubs.layout import Place, placed, written
from turnout.io.serialization import decode, encode


class SummedByHubs(SummedReplies):
    """Replies of which hubs sent sums."""

    why = "hubs add these replies up, so that the server cannot look at each: leave [hubs] out"


class InOneHub(Exception):
    """The round at hand has a cohort of clients of one hub, which can play it.

    Args:
        hub: Number of the hub.
        cohort: The cohort.
    """

    def __init__(self, hub: int, cohort: Cohort):
        super().__init__(hub)
        self.hub, self.cohort = hub, cohort


class HubAsk(FlowerAsk):
    """Answers `ask` by one message to each hub.

    Args:
        at_work: Has hubs play by themselves.
        *arguments: Arguments of the base class.
    """

    summed: ClassVar[type[SummedReplies]] = SummedByHubs

    _serving = False
    """Whether a hub may play what comes."""

    def __init__(self, at_work: HubsAtWork, *arguments):
        super().__init__(*arguments)
        self.at_work, self._link_microseconds = at_work, 0

    @property
    def mailbox(self) -> HubMailbox:
        """The mailbox, which keeps the sums."""
        mailbox = self.clients.mailbox
        assert isinstance(mailbox, HubMailbox)
        return mailbox

    def play(self, server):
        hubs, first = self.job.hubs, self.state
        if hubs is None or not hubs.works:
            return super().play(server)
        self._serving = True
        try:
            return super().play(server)
        except InOneHub as inside:
            new = self._served(inside.hub, inside.cohort, server)
            if new is not None:
                return new
        finally:
            self._serving = False
        # The clients of a hub that does not play may answer all the same, and each exchange passes the server's link.
        self.state, self.calls, self.draws = first, CallSites(), Draws(self.algorithm)
        self.job = replace(self.job, hubs=replace(hubs, works=False))
        return super().play(server)

    def draw(self, sampler, method=None, message=None):
        cohort = super().draw(sampler, method, message)
        hubs = {self.mailbox.of[client] for client in np.asarray(cohort.ids)[np.asarray(cohort.active)].tolist()}
        if self._serving and len(hubs) == 1:
            raise InOneHub(*hubs, cohort)
        return cohort

    def _served(self, hub: int, cohort: Cohort, server: PyTree) -> PyTree | None:
        """Return the server's state after a round that a hub plays; None where it does not.

        Args:
            hub: Number of the hub.
            cohort: The cohort of the round.
            server: The state before it.
        """
        if hub not in self._to_ask(1 + hub):
            return None
        own = {hub: [client for client, which in enumerate(self.mailbox.of) if which == hub]}
        order = self._order("", hub, own[hub])._replace(draws=0, cohort=packed_cohort(cohort))
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(server)]
        levels = len(self.job.hubs.counts)
        paths = frozenset(site.path for site in served_sites(self.sites, levels))
        terms = {hub: Terms(self.job.start, Shape.of(leaves).tree, frozenset(own[hub]), paths, self._repeats, serves=True)}
        results = self.at_work.play({hub: (packed_order(order), encode(leaves, self.job.start))}, terms, self._repeats)
        self._refuse_missing(results, {hub: (hub,)})
        played = results.played.get(hub)
        if played is None:
            return None
        begun = int(self.state.exchanges)
        self._take(played, begun)
        counts, exchanges = self._with_counts(results), jnp.asarray(begun + played.exchanges, "int32")
        self.state = self.state._replace(counts=counts, exchanges=exchanges)
        asked = next((path for path, own in played.counts.items() if own.get("cohorts")), None)
        if asked is not None:
            link = next(site for site in self.sites if site.path == f"{asked}.served{levels}")
            once = dict.fromkeys(("exchanges", "contacts", "arrivals"), jnp.ones((), "int32"))
            self._count(link, once | {"microseconds": in_limbs(self._link_microseconds)})
        return jax.tree.unflatten(jax.tree.structure(server), [jnp.asarray(leaf) for leaf in played.reply])

    def _consult(self, number, path, method, message):
        self._weight = None
        super()._consult(number, path, method, message)

    def _run_clients(self, cohort, method, message, losses):
        self._message, self._lost = message, (np.asarray(losses) > 0) & (not self._repeats)
        return super()._run_clients(cohort, method, message, losses)

    def _requests(self, cohort, method, messages):
        whole, ids, weights = Whole(self._message, self.job.start), np.asarray(cohort.ids).tolist(), self._weights(cohort)
        places = np.flatnonzero(cohort.active).tolist()
        return [Request(k, ids[k], self._header(method, ids[k], weights[k]), Part(whole, k)) for k in places]

    def _weights(self, cohort):
        # What is lost by configuration was computed all the same, and is added zero times.
        weights = super()._weights(cohort)
        return weights if self._weight is None else np.where(self._lost, 0.0, np.asarray(weights)).tolist()

    def _exchange(self, requests, expected, losses):
        self.mailbox.sums.clear()
        return super()._exchange(requests, expected, losses)

    def _wanted(self, expected):
        if self._weight is None:
            return super()._wanted(expected)
        encrypted = self.job.aggregation == "encrypted"
        return SUM, partial(validate_reply, start=self.job.start, expected=expected, encrypted=encrypted)

    def _total(self, replies, expected):
        return added(self.mailbox.sums, expected)

    def _ciphertexts(self, replies):
        return add(self.mailbox.sums)

    def _decrypt(self, clients, header, body, expected):
        seal, size = Seal(), np.dtype(expected.dtype).itemsize * expected.shape[0]
        header = json.dumps(json.loads(header) | {"seal": seal.public}).encode()
        reply, undecrypted = super()._decrypt(clients, header, body, jax.ShapeDtypeStruct((size,), np.dtype("uint8")))
        try:
            return encode(seal.opened(*decode(reply, self.job.start)), self.job.start), undecrypted
        except ValueError:
            name, hub = clients[undecrypted], self.mailbox.of[clients[undecrypted]]
            raise UserError(
                f"the decrypted sum of round {int(self.round)} was changed by client {name} or its hub {hub}: look into their "
                "logs, then start again to continue"
            ) from None

    def _side_by_side(self, path, sizes, message, like, states):
        inside, strata, hubs = f"{self.calls.next_path()}.loop", np.asarray(self.job.population.strata), self.job.hubs
        places = dict(sorted(zip(strata.tolist(), placed(np.asarray(hubs.groups)), strict=True)))
        above = {hub: place[0] for hub, place in places.items()}
        asked = {*self._to_ask(1 + max(above.values()))}
        own = {hub: np.flatnonzero(strata == hub).tolist() for hub in above if above[hub] in asked}
        orders = {hub: self._order(inside, hub, clients) for hub, clients in own.items()}
        body = encode(attached(message, self.state.statistics), self.job.start)
        terms = terms_of(self.job.start, Shape.of(like).tree, self.sites, inside, own, self._repeats)
        lowest = LowestHubs(self.at_work, above, len(hubs.counts) == 1, summed=not hubs.forwards(path))
        results = lowest.play(orders, body, terms, self._repeats)
        self._refuse_missing(results, places)
        for hub, played in results.played.items():
            begun = int(self.state.exchanges) + APART * hub
            self._take(played, begun)
            if played.reply is not None:
                self.versions[self.job.population.count + hub] = int(self.round), begun
        self.state = self.state._replace(counts=self._with_counts(results))
        replies = {hub: played.reply for hub, played in results.played.items() if played.reply is not None}
        nothing = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like)
        stacked = [replies.get(hub, nothing) for hub in range(len(sizes))]
        answered = jnp.asarray([hub in replies for hub in range(len(sizes))])
        return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *stacked), states, answered

    def _to_ask(self, count: int) -> list[int]:
        """Return the hubs to ask, after a wait for the quorum of clients; of those that may not be missing each is waited for."""
        if self.clients.skips:
            return sorted({self.mailbox.of[client] for client in self.clients.present(range(self.job.population.count))})
        self.clients.nodes.greet(GREET_AGAIN)
        return [*range(count)]

    def _order(self, path: str, hub: int, clients: list[int]) -> Order:
        """Return what a hub with some `clients` is to play."""
        now, versions = (self.state.draws, self.state.exchanges), (self.versions, self.stored)
        base, kept = (all[clients].tolist() for all in versions)
        itself = self.job.population.count + hub
        own = [all[itself].tolist() if itself < len(all) else FIRST for all in versions]
        return Order(path, int(self.round), *map(int, now), own, base, kept, self.at_work.seconds)

    def _refuse_missing(self, results: Results, asked: dict[int, Place]) -> None:
        """Raise `UserError` where a hub that was asked is missing, and the run does not go on without clients.

        Args:
            results: What came of the hubs.
            asked: The places of the hubs, by their numbers.
        """
        missing = next((hub for hub in asked if hub not in results.played), None)
        if missing is None or self.clients.skips:
            return
        left_out = asked[missing][0] in self.at_work.hubs.left_out
        why = "left out after refused replies" if left_out else results.why.get(missing, "not connected")
        otherwise = "" if self._repeats else ", or to 'repeat' to ask again"
        raise UserError(
            f"hub {written(asked[missing])} has not played in round {int(self.round)} ({why}): look into its log, and start "
            f"again to continue, or set [faults] missing to 'skip' to go on without it{otherwise}"
        )

    def _take(self, played: Played, begun: int) -> None:
        """Note which states of clients are in use from now on, and which replies were not usable.

        Args:
            played: What came of a hub.
            begun: Number of its first exchange.
        """
        for client, exchange in played.made.items():
            self.versions[client] = int(self.round), begun + exchange
        for client, reasons in played.unusable.items():
            self.clients.nodes.unusable[client].update(reasons)
            self.clients.mailbox.counts.update(reasons)

    def _with_counts(self, results: Results) -> Counts:
        """Return the counts with those of the hubs, at work at once for as long as the server waited."""
        microseconds, paths = round(1e6 * results.seconds), [site.path for site in self.sites]
        self._link_microseconds = microseconds
        if not results.played:
            return self.state.counts
        table = side_by_side([table_of(played.counts, paths) for played in results.played.values()], microseconds)
        self._link_microseconds -= int(table[:, COUNTERS.index("microseconds")].sum())
        return with_more(self.state.counts, table)

    def _count_links(self, path, hubs, answered, down, up):
        super()._count_links(path, hubs, answered, down, up)
        link = next(site for site in self.sites if site.path == f"{path}.link{len(self.job.hubs.counts)}")
        # What does not pass inside hubs passes on the way to them.
        self._count(link, {"microseconds": in_limbs(self._link_microseconds)})


def terms_of(
    start: PyTree, expected: PyTree, sites: Iterable[Site], path: str, own: dict[int, list[int]], repeats: bool
) -> dict[int, Terms]:
    """Return what each of the lowest hubs may reply that plays.

    Args:
        start: Initial parameters.
        expected: Shapes and types of its reply.
        sites: All call sites.
        path: How the paths of calls in hubs begin.
        own: The clients of each hub.
        repeats: Whether replies that are lost are asked for again.
    """
    paths = frozenset(site.path for site in sites if site.path.startswith(f"{path}."))
    return {hub: Terms(start, expected, frozenset(clients), paths, repeats) for hub, clients in own.items()}


def with_more(counts: Counts, table: Int[np.ndarray, "sites counters"]) -> Counts:
    """Return counts with those of a table added.

    Args:
        counts: The counts.
        table: Further counts.
    """
    with jax.enable_x64(True):
        return jnp.moveaxis(limbs(whole(counts) + jnp.asarray(table)), 0, -1)


class HubFlower(Flower):
    """Runs one algorithm with the nodes of a federation that are connected to hubs."""

    asks = HubAsk

    def __init__(self, mailbox: HubMailbox, nodes: ClientsOfHubs, *arguments):
        super().__init__(mailbox, nodes, *arguments)
        self._asks = partial(self.asks, HubsAtWork.of(nodes, self._skips), *self._asks.args)

    @property
    def _holders(self):
        # Hubs that play keep states as clients do.
        hubs = self.job.hubs
        return super()._holders + (hubs.counts[0] if hubs is not None and self.algorithm.addressed.works_in_hubs else 0)

    def _sums_of(self, surveyed: Survey) -> dict[str, Weight | None]:
        assert self.job.hubs is not None
        return sums_by_hubs(self.job.hubs, surveyed)


def sums_by_hubs(hubs: Layout, surveyed: Survey) -> dict[str, Weight | None]:
    """Return the weights of the sum that hubs make of the replies to each call; None for a call whose replies they send on.

    Args:
        hubs: The hubs.
        surveyed: The algorithm's calls.
    """
    each = {site.path: hubs.forwards(site.path) for site in surveyed.sites}
    return {path: None if forwarded else weight_of(surveyed.uses(path)) for path, forwarded in each.items()}
