"""Rounds with clients that are nodes of a Flower federation."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.accounting.counters import elapsed, in_limbs
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.local_methods import local_method
from turnout.core.messages import payload
from turnout.engines.compiled_ask import CompiledAsk
from turnout.engines.exchange.counting import exchange_site
from turnout.engines.exchange.flight import LAST, landed
from turnout.engines.flower.clients import Clients
from turnout.engines.flower.flights import Flights
from turnout.engines.flower.greeting import Members
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.reply_checks import check_of, measures_of, size_of, validate_reply
from turnout.engines.flower.stopwatch import Stopwatch
from turnout.engines.inputs import Job
from turnout.engines.messaging import MessageAsk, MessageEngine, ask_header, first_reply, messages_of, stacked
from turnout.engines.state import Progress, begin
from turnout.io.serialization import Buffer, decode, encode


class FlowerAsk(MessageAsk):
    """Answers `ask` by messages to nodes.

    Args:
        clients: Sends requests to clients.
        stopwatch: Measures how long they take.
        flights: Their requests in flight.
        *arguments: Arguments of the base class.
    """

    def __init__(self, clients: Clients, stopwatch: Stopwatch, flights: Flights, *arguments):
        super().__init__(*arguments)
        self.clients, self.stopwatch, self.flights = clients, stopwatch, flights

    def _run_clients(self, cohort, method, message, losses):
        done = super()._run_clients(cohort, method, message, losses)
        queries, waits = np.asarray(done.queries).tolist(), self.clients.waits()
        for place, client in enumerate(np.asarray(cohort.ids).tolist()):
            if self.delivery.arrived[place]:
                self.stopwatch.add(client, waits[client], queries[place], *self._sent[client])
        return done

    def connected(self):
        return jnp.asarray(self.clients.connected(self.job.population.count))

    def _decrypt(self, clients, header, body, expected):
        check = partial(validate_reply, start=self.job.start, expected=expected)
        began = time.perf_counter()
        for undecrypted, client in enumerate(clients):
            replies, _ = self.clients.ask({client: (header, body)}, "decrypt", size_of(expected), check, 1)
            if client in replies:
                self._measured = (self._measured[0] if self._measured else 0, round(1e6 * (time.perf_counter() - began)))
                return replies[client], undecrypted
        raise UserError(
            f"none of the {len(clients)} clients that answered in round {int(self.round)} decrypted the sum of their replies: "
            "look into the logs of the nodes, then start again to continue"
        )

    def _launch(self, path, cohort, name, message):
        local_method(self.algorithm, name, self.job.start)
        messages, places = messages_of(message, cohort.places), cohort.places
        expected = first_reply.eval_shape(self.job, self.algorithm, messages[0], name=name)
        requests = {request.number: request[2:] for request in self._requests(cohort, name, messages)}
        self.flights.requests(expected, lambda: float(elapsed(self.state.counts))).post(requests)
        site = exchange_site(path, name, cohort, messages[0], expected, self.job.start)
        self.flights.site = replace(site, vectors_up=0, bytes_up=0)
        nothing = jax.tree.map(lambda leaf: jnp.zeros((places, *leaf.shape), leaf.dtype), expected)
        zero = jnp.zeros(places, "int32")
        return Done(nothing, None, zero, zero), cohort.active, jnp.full((places, 2), LAST), zero, site

    def _land(self, flight, count):
        ids, active = np.asarray(flight.cohort.ids), np.asarray(flight.cohort.active)
        place_of = {int(ids[k]): k for k in np.flatnonzero(active)}
        done = self.flights.take(min(count, len(place_of)))
        places = [place_of[each.client] for each in done]
        places = np.asarray((places + np.flatnonzero(~active).tolist())[:count], "int32")
        landing, left = landed(flight, jnp.asarray(places))
        decoded = {k: decode(each.reply, self.job.start) for k, each in enumerate(done) if each.reply is not None}
        expected = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), flight.done.reply)
        counts = {name: [decoded[k][1][name] if k in decoded else 0 for k in range(count)] for name in ("queries", "missed")}
        for k, each in enumerate(done):
            if k in decoded:
                sizes = len(each.reply), payload(jax.tree.map(lambda leaf, k=k: leaf[k], landing.message))
                self.stopwatch.add(each.client, each.seconds, counts["queries"][k], *sizes)
        self.outliers.note({done[k].client: tree for k, (tree, _) in decoded.items()})
        trees = {k: tree for k, (tree, _) in decoded.items()}
        now, last = round(1e6 * float(elapsed(self.state.counts))), max((each.microseconds for each in done), default=0)
        self._waited = in_limbs(max(last - now, 0))
        again = sum(each.repeats for each in done)
        if again and self.flights.site is not None:
            self._count(self.flights.site, {"contacts": jnp.asarray(again, "int32")})
        self.flights.log.update({int(landing.number[k]): (each.microseconds, k in decoded) for k, each in enumerate(done)})
        new = Done(stacked(trees, count, expected), landing.done.state, *(jnp.asarray(n, "int32") for n in counts.values()))
        arrived = np.isin(np.arange(count), [*decoded])
        return replace(landing, done=new, answered=jnp.asarray(arrived)), left

    def _exchange(self, requests, expected, losses):
        contents = {request.number: request[2:] for request in requests}
        kind, check = self._wanted(expected)
        began = time.perf_counter()
        replies, repeats = self.clients.ask(contents, kind, size_of(expected), check, 0 if self._repeats else len(contents))
        self._measured = round(1e6 * (time.perf_counter() - began)) if contents else 0, 0
        self._sent = {number: (len(replies[number]), len(contents[number][1])) for number in replies}
        arrived = {request.place: replies[request.number] for request in requests if request.number in replies}
        retries = np.zeros_like(losses)
        for request in requests:
            retries[request.place] = repeats[request.number]
        return arrived, retries

    def _wanted(self, expected: PyTree) -> tuple[str, Callable[[Buffer], str | None]]:
        """Return the kind of the requests of an exchange, and what says why a reply cannot be used."""
        return "ask", check_of(self.job, expected, self.cut)


class Flower(MessageEngine):
    """Runs one algorithm with the nodes of a federation: the same run as with `Compiled`, as long as no reply is lost.

    Args:
        mailbox: Sends the messages.
        nodes: The clients and their nodes.
        resumed: Whether the run starts from a checkpoint.
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        algorithm: The algorithm, bound to the problem.
        metrics: Names of the metrics.
        every: Rounds between two trace rows.
    """

    asks: ClassVar[type[FlowerAsk]] = FlowerAsk

    def __init__(
        self,
        mailbox: Mailbox,
        nodes: Members,
        resumed: bool,
        job: Job,
        algorithm,
        metrics: tuple[str, ...],
        every: int,
    ):
        super().__init__(replace(job, keeps_messages=True), algorithm, metrics, every)
        self.nodes, self.clients = nodes, Clients(mailbox, nodes, self._skips)
        self.stopwatch = Stopwatch()
        self.resumed, self.committed = resumed, self.versions.copy()
        self.flights = Flights(self.job, self.clients)
        own = self.clients, self.stopwatch, self.flights
        self._asks = partial(self.asks, *own, self.versions, self.committed, self.outliers, self.sums)

    def begin(self) -> Progress:
        """Return the state before the first round; the states of clients are represented by their versions.

        For a run that is `resumed` only the shapes are right, since the start is not to be repeated.
        """
        if self.resumed:
            shapes = jax.eval_shape(partial(begin, CompiledAsk, self.job, self.algorithm, self.sites))
            return self._with_versions(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes))
        return self._with_versions(begin(self._asks, self.job, self.algorithm, self.sites))

    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Run until `rows` more trace rows are written or the round `limit` is reached.

        Until the next call, nodes can return to the states that they had at this one.

        Args:
            progress: State of the run.
            limit: Number of the last round.
            rows: Number of trace rows to write.
        """
        self.versions[:] = self.committed[:] = np.asarray(progress.clients)
        if progress.flight is not None and self.resumed and not self.flights.begun:
            self._send_again(progress)
        progress, table = self.play(self._asks, progress, limit, rows)
        return self._with_versions(progress), table

    def name_of(self, client: int) -> str:
        """Return the name of a client, for messages."""
        return self.nodes[client].name

    def facts(self) -> dict:
        """Return what a summary tells of the nodes; numbers of rows that only a node says are its claim."""
        claimed = {info.name: info.rows for info in self.nodes.values() if info.claimed}
        return {
            "federation": {
                "rows_claimed": claimed,
                "members": [vars(status) for status in self.nodes.statuses()],
                **self._by_standing(),
                "unusable_replies": {reason: count for reason, count in self.clients.mailbox.counts.items() if count},
            }
        }

    def own_leaves(self, progress, problem):
        return None

    def speeds(self) -> str | None:
        """Return the measured speeds of the clients, as a CSV file; None where no exchange was measured."""
        return self.stopwatch.to_csv(self.job.population.count)

    def arrivals(self) -> str | None:
        """Return when the reply to each request in flight came, as a CSV file; None where none is known."""
        return None if self.resumed else self.flights.to_csv()

    def _send_again(self, progress: Progress) -> None:
        """Send the requests that were in flight when the server stopped; nodes that answered them answer the same again."""
        flight, requests = progress.flight, {}
        for k in np.flatnonzero(flight.cohort.active).tolist():
            client, made = int(flight.cohort.ids[k]), (int(flight.sent[k]), int(flight.exchange[k]))
            message = jax.tree.map(lambda leaf, k=k: np.asarray(leaf[k]), flight.message)
            header = ask_header(flight.method, self.versions[client], self.committed[client], made)
            requests[client] = header, encode(message, self.job.start)
        expected = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), flight.done.reply)
        self.flights.requests(expected, lambda: float(elapsed(progress.counts))).post(requests)

    def _by_standing(self) -> dict[str, list[str]]:
        """Return the names of the clients that are not present now."""
        standings = self.nodes.standings()
        return {
            standing.replace(" ", "_"): [self.name_of(i) for i in self.nodes if standings[i] == standing]
            for standing in ("absent", "left out", "revoked")
        }

    @property
    def _skips(self) -> bool:
        return self.job.faults is not None and self.job.faults.missing == "skip"

    def _with_versions(self, progress: Progress) -> Progress:
        return progress._replace(clients=self.versions.copy())

    def _everyone(self, requests):
        """Ask all clients, and ask those without an answer again, unless missing clients are skipped."""
        expected = measures_of(self.asked, self.job.start)
        check = partial(validate_reply, start=self.job.start, expected=expected)
        dispensable = len(requests) - 1 if self._skips else 0
        answers, _ = self.clients.ask(requests, "measure", size_of(expected), check, dispensable)
        self.clients.mailbox.counts["evaluations by fewer clients"] += len(answers) < len(requests)
        return answers
