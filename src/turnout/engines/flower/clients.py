"""Requests to clients, which are repeated where configured; whatever goes wrong is told by the client's name."""

import json
import time
from collections import Counter
from collections.abc import Callable
from logging import WARNING

from flwr.common.logger import log

from turnout.core.errors import UserError
from turnout.engines.flower.greeting import NodeInfo
from turnout.engines.flower.mailbox import Mailbox
from turnout.io.serialization import Buffer

TRIES = 12
"""How often a client is asked for one reply."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0
"""Seconds before clients are asked again: the first time, then twice as long each time, up to the longest."""

MOST_REFUSED = 5
"""Replies refused in a row after which a client is not asked any more."""

SHOWN = 5
"""Names in a line of the log."""


class Clients:
    """The clients of a federation, which are asked by messages to their nodes.

    Args:
        mailbox: Sends the messages.
        nodes: Node of each client.
    """

    def __init__(self, mailbox: Mailbox, nodes: dict[int, NodeInfo]):
        self.mailbox, self.nodes = mailbox, nodes
        self.refusals: Counter[int] = Counter()

    def connected(self, count: int) -> list[bool]:
        """Return for each of `count` clients whether its node is connected and is asked."""
        connected = set(self.mailbox.grid.get_node_ids())
        return [i in self._askable and self.nodes[i].node in connected for i in range(count)]

    @property
    def left_out(self) -> list[int]:
        """The clients that are not asked any more, since their replies were refused."""
        return [client for client, refused in self.refusals.items() if refused >= MOST_REFUSED]

    @property
    def _askable(self) -> set[int]:
        return {client for client, info in self.nodes.items() if info.node is not None} - {*self.left_out}

    def ask(
        self,
        requests: dict[int, tuple[bytes, bytes]],
        kind: str,
        limit: int,
        check: Callable[[Buffer], str | None],
        dispensable: int,
    ) -> tuple[dict[int, Buffer], Counter[int]]:
        """Return valid replies by client, and how often each client was asked again.

        Clients without a valid reply are asked again, up to `TRIES` times, unless they are at most `dispensable`.

        Args:
            requests: Header and body of the request to each client.
            kind: Kind of the request.
            limit: Most bytes of a reply.
            check: Returns why a reply cannot be used, or None.
            dispensable: Number of clients whose replies can be missing.

        Raises:
            UserError: More replies are missing after all tries.
        """
        asked = [client for client in requests if client in self._askable]
        waiting, replies, repeats, attempts, pause = asked, {}, Counter(), Counter(), FIRST_PAUSE
        for k in range(1, TRIES + 1):
            contents = {self.nodes[client].node: numbered(requests[client], attempts[client]) for client in waiting}
            received = self.mailbox.send(contents, f"{kind}_{self.mailbox.digest}", limit, check)
            replies |= {client: received[self.nodes[client].node] for client in waiting if self.nodes[client].node in received}
            waiting = [client for client in waiting if client not in replies]
            last = len(requests) - len(replies) <= dispensable
            if waiting and k == TRIES and not last:
                raise UserError(
                    f"{self._why(waiting)}, after {TRIES} requests: look into the logs of the nodes, then start again to continue"
                )
            if waiting:
                what = "left out of this exchange" if last else f"asked again in {pause:g} s ({k} of {TRIES} requests)"
                log(WARNING, "%s: %s", self._why(waiting), what)
            if last:
                break
            repeats.update(waiting)
            attempts.update(client for client in waiting if self.nodes[client].node in self.mailbox.refused)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        self._remember(asked, waiting)
        return replies, repeats

    def _why(self, waiting: list[int]) -> str:
        """Return which clients gave no usable reply to the last request, and why."""
        reasons: dict[str, list[str]] = {}
        for client in waiting:
            node, _, name, _ = self.nodes[client]
            reasons.setdefault(self.mailbox.refused.get(node, self.mailbox.silence), []).append(name or f"client {client}")
        return "; ".join(f"{first_of(names)}: {reason}" for reason, names in reasons.items())

    def _remember(self, asked: list[int], waiting: list[int]) -> None:
        """Count the refusals in a row of the clients that were `asked`, of which those `waiting` gave no usable reply."""
        for client in asked:
            if client not in waiting:
                del self.refusals[client]
            elif self.nodes[client].node in self.mailbox.refused:
                self.refusals[client] += 1
                if self.refusals[client] == MOST_REFUSED:
                    log(WARNING, "%s: left out from now on, after %d refused replies", self.nodes[client].name, MOST_REFUSED)


def numbered(request: tuple[bytes, bytes], attempt: int) -> tuple[bytes, bytes]:
    """Return a request that counts the replies that were refused, so that the client computes a new one.

    Args:
        request: Header and body.
        attempt: Number of refused replies.
    """
    header, body = request
    return (json.dumps(json.loads(header) | {"attempt": attempt}).encode(), body) if attempt else request


def first_of(names: list[str]) -> str:
    """Return some of the names, and the number of the others."""
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} others"
