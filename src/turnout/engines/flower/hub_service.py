"""What a hub answers for: requests to its clients, whose replies it forwards or adds up, and rounds that it plays by itself."""

import json
from collections.abc import Callable
from functools import partial
from logging import ERROR
from threading import Lock
from typing import TypeVar

import httpx
import jax
from flwr.common.logger import log
from flwr.supercore.run import RunNotRunningException
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.engines.encryption import add, encrypted_shape, numbers_in
from turnout.engines.flower.client_app import Handshake
from turnout.engines.flower.greeting import SHOWN
from turnout.engines.flower.hub_mailbox import SUM, HubMailbox
from turnout.engines.flower.hub_members import AGAIN, AskedByHub, OfHub
from turnout.engines.flower.hub_messages import COUNTS, Order, packed_replies, packed_sum, read_requests
from turnout.engines.flower.hub_of_hubs import HubRelay
from turnout.engines.flower.hub_play import PLAY
from turnout.engines.flower.hub_player import HubPlayer
from turnout.engines.flower.reply_checks import size_of, validate_reply
from turnout.engines.messaging import added
from turnout.engines.request import Refused
from turnout.io.audit import AuditLog
from turnout.io.serialization import Buffer, decode

LOST = (RunNotRunningException, httpx.HTTPError)
"""The errors of a SuperLink that was away too long."""

Result = TypeVar("Result")

Expected = Callable[[str, bytes, Buffer], PyTree]
"""Returns shapes and types of a reply to a request, given its kind, header and body."""


class HubService:
    """Answers for the clients of one hub.

    Args:
        number: Number of the hub among those that are connected where it is.
        nodes: Its clients, which are its nodes, or are connected to hubs that are.
        start: Initial parameters.
        expected: Returns what a reply looks like.
        player: Plays rounds, or has the hubs below this one play them; None where the algorithm has hubs play none.
        end: Ends the process, where its SuperLink has ended the run.
    """

    log: AuditLog | None = None

    def __init__(
        self,
        number: int,
        nodes: OfHub,
        start: PyTree,
        expected: Expected,
        player: HubPlayer | HubRelay | None = None,
        end: Callable[[], None] = lambda: None,
    ):
        self.number, self.mailbox, self.nodes = number, nodes.mailbox, nodes
        self.start, self.expected, self.player, self.end = start, expected, player, end
        self.through = self.mailbox if isinstance(self.mailbox, HubMailbox) else None
        """Reaches the clients through further hubs, which add up replies in turn; None where they are nodes of this one."""
        self.clients = AskedByHub(nodes.mailbox, nodes)
        nodes.mailbox.digest = nodes.expected.digest
        self.lock = Lock() if player is None else player.lock

    @property
    def handshake(self) -> Handshake:
        """The fields of the handshake."""
        return self.nodes.expected

    def answer(self, kind: str, header: bytes, body: Buffer, digest: bytes) -> bytes:
        """Return the body of the reply to a request; raise `Refused` for one that is not answered.

        Args:
            kind: "hello", or "ask", "sum", "measure", "decrypt" or "play" with the digest of the handshake.
            header: Header of the request.
            body: Its body.
            digest: SHA-256 digest of the body.
        """
        action, _, run = kind.partition("_")
        if kind == "hello":
            self._guarded(self._greet)
            return self.greeting()
        if action not in ("ask", SUM, "measure", "decrypt", PLAY) or run != self.handshake.digest:
            raise Refused("the request is not one of the run for which this hub answers: start the server again")
        with jax.enable_x64(self.handshake.precision == "double"):
            if action == PLAY:
                return self._guarded(lambda: self._played(header, body, digest))
            return self._guarded(lambda: self._exchanged(action, header, body))

    def _greet(self) -> None:
        # Who plays rounds greets nodes by itself.
        if self.lock.acquire(blocking=False):
            try:
                self.nodes.greet(AGAIN)
            finally:
                self.lock.release()

    def _played(self, header: bytes, body: Buffer, digest: bytes) -> bytes:
        """Return what came of rounds that the hub plays."""
        if self.player is None:
            raise Refused("the algorithm of this run has hubs play no rounds: start the server again")
        try:
            return self.player.answer(header, body, digest)
        except UserError as error:
            raise Refused(str(error)) from None

    def greeting(self, refusal: str | None = None) -> bytes:
        """Return the reply to a greeting: the clients that have been here, why nodes are refused, and why the run is."""
        nodes = self.nodes
        own = {"clients": nodes.rows, "schema": nodes.schema, "sum_key": nodes.sum_key}
        own["refused"] = [*nodes.refused.values()][-SHOWN:]
        fields = {"client": self.number, "rows": len(nodes.own), **own, **self.handshake.fields}
        return json.dumps(fields | ({} if refusal is None else {"refusal": refusal})).encode()

    def spent(self) -> None:
        """A hub releases nothing of its own."""

    def _guarded(self, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, and end where the SuperLink of this hub was away too long for it."""
        try:
            return work()
        except LOST as error:
            log(ERROR, "the SuperLink of this hub has ended its run, and so the hub ends: %r", error)
            self.end()
            raise Refused("this hub has lost its SuperLink, and has to start again") from None

    def _exchanged(self, action: str, header: bytes, body: Buffer) -> bytes:
        """Send requests on, and return the replies, or their sum."""
        order = read_requests(header, body, self.start, frozenset(self.nodes.own))
        if not self.lock.acquire(timeout=order.seconds):
            raise Refused("this hub is still at work for a former request: ask again")
        try:
            return self._sent_on(action, order)
        finally:
            self.lock.release()

    def _sent_on(self, action: str, order: Order) -> bytes:
        asked, kind = order.requests, action if action in ("measure", "decrypt") else "ask"
        header, body = next(iter(asked.values()))
        expected, encrypted = self.expected(kind, header, bytes(body)), kind == "ask" and self.handshake.encrypted
        expected = encrypted_shape(numbers_in(expected)) if encrypted else expected
        self.clients.skips, self.mailbox.deadline, self.mailbox.refused = order.skips, order.seconds, {}
        if self.through is not None:
            self.through.skips, self.through.sums = order.skips, []
            kind = SUM if action == SUM else kind
        counts = COUNTS if kind == "ask" else ()
        check = partial(validate_reply, start=self.start, expected=expected, counts=counts, encrypted=encrypted)
        replies, _ = self.clients.ask(asked, kind, size_of(expected), check, len(asked))
        replies = {client: replies[client] for client in asked if client in replies}
        missing = {client: self._refused(client) for client in asked if client not in replies}
        if action != SUM:
            return packed_replies(replies, missing)
        decoded = {client: decode(reply, self.start) for client, reply in replies.items()}
        trees = [tree for tree, _ in decoded.values()] if self.through is None else self.through.sums
        total = add(trees) if encrypted and trees else added(trees, expected)
        counted = {client: {name: told[name] for name in COUNTS} for client, (_, told) in decoded.items()}
        return packed_sum(total, self.start, counted, missing)

    def _refused(self, client: int) -> str:
        """Return why the reply of a client was refused; "" where none came."""
        return self.mailbox.refused.get(self.nodes[client].node, "")
