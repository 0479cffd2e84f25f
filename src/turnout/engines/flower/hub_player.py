"""What a hub plays by itself, with its own clients: the rounds between two messages of the server, or a round in its place."""

from collections import Counter
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.accounting.counters import no_counts, whole
from turnout.codecs.coded import Coded
from turnout.core.cohort import Cohort
from turnout.engines.ask import State
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.flower.clients import Clients
from turnout.engines.flower.flights import Flights
from turnout.engines.flower.hub_engine import sums_by_hubs
from turnout.engines.flower.hub_mailbox import SHARE
from turnout.engines.flower.hub_members import HubsOfHub
from turnout.engines.flower.hub_messages import valid_request
from turnout.engines.flower.hub_of_hubs import ServingByHubs
from turnout.engines.flower.hub_play import Order, Played, Unusable, counts_of, packed_played, read_order
from turnout.engines.flower.hub_play_ask import PlayAsk
from turnout.engines.flower.hub_serving import ServingAsk, read_cohort, served_sites
from turnout.engines.flower.hub_work import Work
from turnout.engines.flower.hubs_at_work import HubsAtWork
from turnout.engines.flower.state_store import DiskStates
from turnout.engines.flower.stopwatch import Stopwatch
from turnout.engines.groups.statistics import first_statistics
from turnout.engines.hubs_ask import APART
from turnout.engines.inputs import Job
from turnout.engines.node import States
from turnout.engines.outliers import Outliers
from turnout.engines.reply_usage import Survey, survey
from turnout.engines.request import FIRST, Refused, Version
from turnout.io.serialization import Buffer, decode
from turnout.samplers.base import samplers_in


class HubPlayer:
    """Plays the rounds of a hub, and answers requests for what comes of them.

    Its own state, and what it remembers of compressed messages, is kept by version, as clients keep theirs.

    Args:
        own: Numbers of the clients of the hub.
        job: Inputs of the run, with shapes in the place of rows, and with the hubs below this one.
        algorithm: The algorithm, bound to the problem.
        clients: Reaches the clients of the hub.
        double: Whether the run computes in 64 bits.
        folder: Folder of the hub's states; None keeps them in memory.
    """

    def __init__(self, own: list[int], job: Job, algorithm, clients: Clients, double: bool, folder: Path | None):
        self.job, self.algorithm, self.clients, self.double = job, algorithm, clients, double
        self.own, self.number = np.asarray(own), int(np.asarray(job.population.strata)[own[0]])
        surveyed = survey(job, algorithm)
        self.sums = None if job.hubs is None else sums_by_hubs(job.hubs, surveyed)
        self.paths, self.sites, self.structure = surveyed.hubs, surveyed.sites, surveyed.structure
        self.counted = paths_inside(surveyed, 0 if job.hubs is None else len(job.hubs.counts))
        self.first = first_of_hub(job, algorithm, self.own.size)
        on_disk = folder is not None and jax.tree.leaves(self.first)
        self.states, self.work = DiskStates(folder, self.first) if on_disk else States(), Work()
        self.lock = Lock()
        """Held by whoever asks the clients."""

    def answer(self, header: bytes, body: Buffer, digest: bytes) -> bytes:
        """Return the reply to a request to play, or how far the hub is.

        Args:
            header: Header of the request.
            body: The message.
            digest: SHA-256 digest of the body.
        """
        order = read_order(header, self.own.size, self.paths)
        play = partial(self._play, order, self._cohort(order), body)
        return self.work.answer(header + digest, order.seconds, play)

    def _cohort(self, order: Order) -> Cohort | None:
        """Return the cohort of a round in the server's place; None for rounds of the hub's own."""
        if order.cohort is None:
            return None
        with valid_request(), jax.enable_x64(self.double):
            return read_cohort(order.cohort, frozenset(self.own.tolist()))

    def _play(self, order: Order, cohort: Cohort | None, body: Buffer) -> bytes:
        with self.lock, jax.enable_x64(self.double):
            message, _ = decode(body, self.job.start)
            before = {client: Counter(reasons) for client, reasons in self.clients.nodes.unusable.items()}
            self.clients.mailbox.deadline = SHARE * order.seconds
            reply, begun, ask = self._found(order, message) if cohort is None else self._served(order, cohort, message)
            played = Played(
                reply,
                int(ask.state.exchanges) - begun,
                self._counts(ask.state.counts),
                {int(i): int(ask.versions[i, 1]) - begun for i in self.own if tuple(ask.versions[i]) != tuple(ask.before[i])},
                self._unusable_since(before),
            )
            return packed_played(played, self.job.start)

    def _found(self, order: Order, message: PyTree) -> tuple[PyTree, int, PlayAsk]:
        """Return what rounds of the hub's own found, None where nobody answered, the first exchange, and the `ask` of all."""
        message, statistics = message if first_statistics(self.algorithm) else (message, {})
        (base, kept), begun = order.own, order.exchanges + APART * self.number
        state, memories = self._state(base)
        ask = PlayAsk(*self._arguments(order, strongly_typed(statistics), memories))
        self.work.done = lambda: ask.done
        reply, new = ask.in_hub(order.path, self.number, message, state)
        came, made = bool(ask.state.came), (order.round, begun)
        if came and jax.tree.leaves(self.first):
            self.states.keep({base, kept})
            self.states[made] = jax.tree.map(np.asarray, (new, self._own_rows(ask.state.memories)))
        return jax.tree.map(np.asarray, reply) if came else None, begun, ask

    def _served(self, order: Order, cohort: Cohort, leaves: PyTree) -> tuple[PyTree, int, ServingAsk]:
        """Return the arrays of the server's state after its round, the first exchange, and the `ask` of all."""
        if type(leaves) is not list or len(leaves) != self.structure.num_leaves:
            raise Refused("the request to this hub is not valid: it has another state than this algorithm's")
        before, *rest = self._arguments(order, {}, {})
        nodes = self.clients.nodes
        if isinstance(nodes, HubsOfHub):
            at_work = HubsAtWork.of(nodes, self.clients.skips)
            ask = ServingByHubs(cohort, before, at_work, *rest)
        else:
            ask = ServingAsk(cohort, before, *rest)
        self.work.done = lambda: ask.done
        return ask.new_leaves(self.structure, leaves), order.exchanges, ask

    def _arguments(self, order: Order, statistics: dict, memories: dict) -> tuple:
        """Return the arguments of the `ask` of a request."""
        count, job = self.job.population.count, self.job
        versions, stored = (np.tile(np.asarray(FIRST), (count, 1)) for _ in range(2))
        versions[self.own], stored[self.own] = order.base, order.kept
        rows = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape[1:]), leaf.dtype).at[self.own].set(leaf), memories)
        state = State(
            samplers=[sampler.start(job.population) for sampler in samplers_in(self.algorithm)],
            clients=None,
            counts=no_counts(len(self.sites)),
            quality=None,
            draws=jnp.asarray(order.draws, "int32"),
            exchanges=jnp.asarray(order.exchanges, "int32"),
            memories=rows,
            statistics=statistics,
        )
        reach = self.clients, Stopwatch(), Flights(job, self.clients)
        own = versions, stored, Outliers(), self.sums, job, self.algorithm, order.round, state, self.sites
        return versions.copy(), *reach, *own

    def _state(self, version: Version) -> tuple[PyTree, dict]:
        """Return the hub's state, and what it remembers of messages to its clients, of a version."""
        if version == FIRST or not jax.tree.leaves(self.first):
            return self.first
        try:
            return self.states[version]
        except KeyError:
            raise Refused(
                f"the request starts from the state {version}, which this hub does not have: give it its former folder of keys, "
                "or start a new run"
            ) from None

    def _own_rows(self, memories: dict) -> dict:
        return jax.tree.map(lambda leaf: leaf[self.own], memories)

    def _counts(self, counts: Any) -> dict[str, dict[str, int]]:
        with jax.enable_x64(True):
            told = counts_of(np.asarray(whole(counts)), [site.path for site in self.sites])
            return {path: own for path, own in told.items() if path in self.counted}

    def _unusable_since(self, before: dict[int, Counter[str]]) -> Unusable:
        """Return the replies of clients that could not be used since they were those of `before`."""
        now = self.clients.nodes.unusable
        new = {client: dict(Counter(now[client]) - before.get(client, Counter())) for client in now}
        return {client: reasons for client, reasons in new.items() if reasons}


def first_of_hub(job: Job, algorithm, clients: int) -> tuple[PyTree, dict]:
    """Return the first state of a hub, and its first memory of compressed messages to each of its clients.

    Args:
        job: Inputs of the run.
        algorithm: The algorithm, bound to the problem.
        clients: Number of clients of the hub.
    """
    memories = algorithm.memories(job.start, "server") if isinstance(algorithm, Coded) else {}
    memories = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (clients, *np.shape(leaf))), memories)
    return jax.tree.map(np.asarray, (algorithm.addressed.hub_state(job.start), memories))


def paths_inside(surveyed: Survey, below: int) -> frozenset[str]:
    """Return the paths of the call sites that hubs count: those of their own rounds, or those of a round of the server.

    Args:
        surveyed: The algorithm's calls.
        below: Number of levels of hubs below the hub.
    """
    own = tuple(f"{path}." for path in surveyed.hubs)
    sites = [site for site in surveyed.sites if site.path.startswith(own)] if own else served_sites(surveyed.sites, 1 + below)
    return frozenset(site.path for site in sites)


def without_rows(job: Job) -> Job:
    """Return a job with shapes in the place of all that hubs do not need, such as rows."""
    needed = {"start", "seeds", "faults", "robust", "others"}

    def shape(path, leaf):
        names = {getattr(key, "name", None) for key in path}
        if path[0].name in needed or "population" in names:
            return leaf
        return jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf))

    return jax.tree_util.tree_map_with_path(shape, job)
