"""Messages of the server to nodes, and their replies."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from flwr.app import Message
from flwr.common.constant import ErrorCode
from flwr.superlink.grid import HttpGrid

from turnout.engines.flower.chunks import INTERRUPTED
from turnout.engines.flower.payload import pack, pack_body, unpack
from turnout.engines.flower.transfers import Transfers
from turnout.io.serialization import Buffer

Requests = dict[int, tuple[bytes, Any]]
"""Header and body of each request: a body in bytes, or what has bytes, or what a mailbox of its own kind makes bytes of."""

POLL = 0.02
"""Seconds between two requests for replies."""

LONGEST_TURN = 2.0
"""Seconds for which replies are fetched before the server asks for further ones."""

REASON_LENGTH = 160
"""Characters of a node's reason for an error that are used."""


class Mailbox:
    """Sends messages to nodes and collects the replies.

    `counts` has the number of unusable replies by reason, `refused` says by node which of the last replies could not be used and
    why, and `silence` why others did not come; `waits` has the seconds that the last usable reply of each node took.
    Requests carry `digest`, on which `handshake` agrees with the nodes.

    Args:
        grid: Connection to the SuperLink.
        deadline: Seconds that an exchange waits for replies.
    """

    def __init__(self, grid: HttpGrid, deadline: float):
        self.grid, self.deadline, self.counts = grid, deadline, Counter()
        self.refused: dict[int, str] = {}
        self.waits: dict[int, float] = {}
        self.digest, self.silence = "", ""

    def send(self, requests: Requests, kind: str, limit: int, check: Callable[[Buffer], str | None]) -> dict[int, Buffer]:
        """Send a header and a body to each node, by its id, and return the replies before the deadline, by node.

        Args:
            requests: Header and body of the message to each node, by its id.
            kind: Kind of the request.
            limit: Most bytes of a reply; a longer one is not fetched to its end.
            check: Returns why a reply cannot be used, or None.
        """
        began = time.monotonic()
        received, self.refused, self.silence = {}, {}, f"no reply within {self.deadline:g} s"
        for node, message in self._replies(requests, kind, limit):
            if is_away(message):
                self.counts["not connected"] += 1
                continue
            body, reason = opened(message)
            reason = reason if body is None else check(body)
            if reason is None:
                received[node] = body
                self.waits[node] = time.monotonic() - began
            else:
                self.refused[node] = reason
                self.counts[reason] += 1
        return received

    def push(self, requests: dict[int, tuple[bytes, bytes]], kind: str) -> dict[str, int]:
        """Send a header and a body to each node, and return the node of each message by its id; none if the SuperLink is gone.

        Args:
            requests: Header and body of the message to each node, by its id.
            kind: Kind of the request.
        """
        # The same body becomes the same object.
        bodies = {id(body): body for _, body in requests.values()}
        packed = {name: pack_body(bytes(body)) for name, body in bodies.items()}
        messages = [Message(pack(packed[id(body)], header), node, f"query.{kind}") for node, (header, body) in requests.items()]
        try:
            return dict(zip(self.grid.push_messages(messages), requests, strict=True))
        except INTERRUPTED:
            self.silence = "not asked, since the SuperLink was gone"
            self.counts[self.silence] += len(requests)
            return {}

    def _replies(self, requests: dict[int, tuple[bytes, bytes]], kind: str, limit: int) -> Iterator[tuple[int, Message]]:
        """Send requests, and yield node and reply. All replies are fetched side by side, so that none holds up the others."""
        end = time.monotonic() + self.deadline
        sent = self.push(requests, kind)
        if not sent:
            return
        transfers = Transfers(self.grid, limit)
        try:
            yield from self._received(requests, kind, sent, transfers, end)
        finally:
            self.counts["late or missing"] += len(sent) + len(transfers)
            transfers.close()

    def _received(
        self, requests: dict[int, tuple[bytes, bytes]], kind: str, unheard: dict[str, int], transfers: Transfers, end: float
    ) -> Iterator[tuple[int, Message]]:
        """Yield node and reply before the time `end`; `unheard` has the node of each message whose reply has not begun.

        A request that the SuperLink has lost is sent once more.
        """
        nodes, again = dict(unheard), set()
        while (unheard or transfers) and time.monotonic() < end:
            for number in transfers.look(set(unheard)) if unheard else ():
                del unheard[number]
            moved, until, lost = True, min(end, time.monotonic() + LONGEST_TURN) if unheard else end, []
            while transfers and moved and time.monotonic() < until:
                moved = False
                for reply in transfers.advance():
                    moved = True
                    if reply is not None and is_lost(reply[1]) and nodes[reply[0]] not in again:
                        lost.append(nodes[reply[0]])
                    elif reply is not None:
                        yield nodes[reply[0]], reply[1]
            if lost:
                sent = self.push({node: requests[node] for node in lost}, kind)
                again |= {*lost}
                nodes |= sent
                unheard |= sent
            if unheard or transfers:
                time.sleep(POLL)


def is_lost(reply: Message) -> bool:
    """Whether the SuperLink says that it does not have a message any more: it was started again."""
    return reply.has_error() and reply.error.code == ErrorCode.MESSAGE_UNAVAILABLE


def is_away(reply: Message) -> bool:
    """Whether the SuperLink says that a node is not connected: it has answered nothing, so that there is nothing to refuse."""
    return reply.has_error() and reply.error.code == ErrorCode.NODE_UNAVAILABLE


def opened(message: Message) -> tuple[Buffer | None, str | None]:
    """Return the body of a reply, or None and what is wrong with it."""
    if message.has_error():
        reason = f"error {message.error.code}: {message.error.reason}"
        return None, reason if len(reason) <= REASON_LENGTH else f"{reason[:REASON_LENGTH]}..."
    try:
        return unpack(message.content)[1], None
    except ValueError:
        return None, "malformed"
