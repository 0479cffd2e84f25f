"""The server's mailbox where clients are connected to hubs: one message to each hub, and one reply with those of its clients."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from jaxtyping import PyTree

from turnout.engines.flower.hub_messages import HEADER_BYTES, Answer, packed_requests, read_replies, read_sum
from turnout.engines.flower.mailbox import REASON_LENGTH, Mailbox, Requests
from turnout.io.serialization import Buffer

SHARE = 0.8
"""The part of the deadline within which a hub waits for its clients; the rest is for its own reply."""

SUM = "sum"
"""The kind of a request of whose replies hubs send sums."""


class HubMailbox(Mailbox):
    """Sends requests to clients through their hubs: a "node" is a client here, by its number.

    Args:
        mailbox: Reaches the hubs.
        hubs: Returns the node of each hub that is there.
        of: The hub of each client; None for one that is not below these hubs.
        start: Initial parameters.

    Attributes:
        skips: Whether hubs do not ask clients that are not connected.
        sums: The sums of hubs that came since this was emptied.
    """

    def __init__(self, mailbox: Mailbox, hubs: Callable[[], Mapping[int, int]], of: list[int | None], start: PyTree):
        super().__init__(mailbox.grid, mailbox.deadline)
        self.mailbox, self.hubs, self.of, self.start, self.counts = mailbox, hubs, of, start, mailbox.counts
        self.skips = False
        self.sums: list[PyTree] = []

    def send(self, requests: Requests, kind: str, limit: int, check: Callable[[Buffer], str | None]) -> dict[int, Buffer]:
        """Send a header and a body to each client, and return the replies that came through the hubs, by client.

        Where the kind is `SUM`, `sums` gets the sum of each hub, which `check` is about, and replies have counts only.

        Args:
            requests: Header and body of the request to each client.
            kind: Kind of the request.
            limit: Most bytes of a reply.
            check: Returns why a reply cannot be used, or None.
        """
        began, nodes = time.monotonic(), self.hubs()
        groups: dict[int, Requests] = defaultdict(dict)
        for client, request in requests.items():
            groups[self.of[client]][client] = request
        asked = {nodes[hub]: frozenset(own) for hub, own in groups.items() if hub in nodes}
        messages = {
            nodes[hub]: packed_requests(own, SHARE * self.deadline, self.skips) for hub, own in groups.items() if hub in nodes
        }
        most = max(map(len, asked.values()), default=0)
        summed = kind.partition("_")[0] == SUM
        bytes_up = most * HEADER_BYTES + limit * (1 if summed else most)
        self.mailbox.deadline = self.deadline
        bodies = self.mailbox.send(messages, kind, bytes_up, lambda body: None)
        self.refused, self.silence, received = {}, self.mailbox.silence, {}
        for node, why in self.mailbox.refused.items():
            self._refuse(asked[node], f"its hub: {why}")
        for node, body in bodies.items():
            received |= self._opened(body, asked[node], check, summed)
        self.waits |= dict.fromkeys(received, time.monotonic() - began)
        return received

    def _opened(
        self, body: Buffer, asked: frozenset[int], check: Callable[[Buffer], str | None], summed: bool
    ) -> dict[int, Buffer]:
        """Return the usable replies in that of a hub."""
        try:
            answer = self._sum(body, asked, check) if summed else read_replies(body, asked)
        except ValueError as error:
            self.counts[f"of a hub: {error}"] += 1
            self._refuse(asked, f"the reply of its hub is {error}")
            return {}
        for client, reason in answer.refused.items():
            self._refuse([client], reason)
        good = {}
        for client, reply in answer.replies.items():
            reason = None if summed else check(reply)
            if reason is None:
                good[client] = reply
            else:
                self.counts[reason] += 1
                self._refuse([client], reason)
        self.counts["late or missing"] += len(asked) - len(answer.replies) - len(answer.refused)
        return good

    def _sum(self, body: Buffer, asked: frozenset[int], check: Callable[[Buffer], str | None]) -> Answer:
        """Take the sum of a hub; `ValueError` where it cannot be used."""
        answer, total = read_sum(body, self.start, asked)
        if answer.replies:
            reason = check(body)
            if reason is not None:
                raise ValueError(reason)
            self.sums.append(total)
        return answer

    def _refuse(self, clients, reason: str) -> None:
        short = reason if len(reason) <= REASON_LENGTH else f"{reason[:REASON_LENGTH]}..."
        self.refused |= dict.fromkeys(clients, short)
