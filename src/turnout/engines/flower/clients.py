"""Requests to clients, which are repeated where configured; whatever goes wrong is told by the client's name."""

import json
import time
from collections import Counter
from collections.abc import Callable, Collection
from logging import WARNING
from typing import Any

from flwr.common.logger import log

from turnout.core.errors import UserError
from turnout.engines.flower.greeting import GREET_AGAIN, MOST_REFUSED, PAUSE, Members, Wait, first_of
from turnout.engines.flower.mailbox import Mailbox, Requests
from turnout.io.serialization import Buffer

TRIES = 12
"""How often a client is asked for one reply."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0
"""Seconds before clients are asked again: the first time, then twice as long each time, up to the longest."""


class Clients:
    """The clients of a federation, which are asked by messages to their nodes.

    Args:
        mailbox: Sends the messages.
        nodes: The clients and their nodes.
        skips: Whether a run goes on without clients that are away, which are not asked.
    """

    def __init__(self, mailbox: Mailbox, nodes: Members, skips: bool = False):
        self.mailbox, self.nodes, self.skips = mailbox, nodes, skips

    def connected(self, count: int) -> list[bool]:
        """Return for each of `count` clients whether its node is connected and is asked."""
        self.nodes.greet(GREET_AGAIN)
        present = self.nodes.present
        return [i in present for i in range(count)]

    def waits(self) -> dict[int, float]:
        """Return the seconds that the last usable reply of each client took."""
        return {i: self.mailbox.waits[info.node] for i, info in self.nodes.items() if info.node in self.mailbox.waits}

    def present(self, clients: Collection[int]) -> list[int]:
        """Return which of the `clients` to ask, after a wait for the quorum, or for all where none can be missing."""
        wait = Wait(self.nodes)
        while True:
            self.nodes.dismiss()
            if self.skips or not {*clients} <= {*self.nodes.nodes}:
                self.nodes.greet(GREET_AGAIN)
            if self.skips:
                least = 1 if self.nodes.quorum is None else self.nodes.least
                present = self.nodes.present
                if len(present) >= least:
                    return [client for client in clients if client in present]
                if self.nodes.standings().count("left out") > self.nodes.registered - least:
                    names = first_of([self.nodes[client].name for client in self.nodes.left_out])
                    raise UserError(f"{names}: left out, and the others are too few: look into their logs, then start again")
                wait.tell(f"waiting for {least} clients, of which {len(present)} are connected")
            else:
                absent = [self.nodes[client].name for client in clients if client not in self.nodes.nodes]
                gone = [name for name in absent if name in self.nodes.revoked]
                if gone:
                    raise UserError(f"{first_of(gone)}: revoked, but its reply is needed: set [faults] missing to 'skip'")
                if not absent:
                    return [client for client in clients if client not in self.nodes.left_out]
                wait.tell(f"waiting for {first_of(absent)}, whose reply is needed")
            time.sleep(PAUSE)

    def ask(
        self,
        requests: Requests,
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
        asked = self.present(requests)
        waiting, replies, repeats, attempts, pause = asked, {}, Counter(), Counter(), FIRST_PAUSE
        for k in range(1, TRIES + 1):
            contents = {self.nodes[client].node: numbered(requests[client], attempts[client]) for client in waiting}
            received = self.mailbox.send(contents, f"{kind}_{self.mailbox.digest}", limit, check)
            replies |= {client: received[self.nodes[client].node] for client in waiting if self.nodes[client].node in received}
            waiting = [client for client in waiting if client not in replies]
            for client in waiting:
                self.nodes.unusable[client][self._reason(client)] += 1
            last = len(requests) - len(replies) <= dispensable
            if waiting and k == TRIES and not last:
                raise UserError(
                    f"{self._why(waiting)}, after {TRIES} requests: look into the logs of the nodes, then start again to continue"
                )
            if waiting:
                left_out = "another client is asked" if kind == "decrypt" else "left out of this exchange"
                what = left_out if last else f"asked again in {pause:g} s ({k} of {TRIES} requests)"
                log(WARNING, "%s: %s", self._why(waiting), what)
                self.nodes.watch(self.nodes, f"{self._why(waiting)}: {what}")
            if last:
                break
            repeats.update(waiting)
            attempts.update(client for client in waiting if self.nodes[client].node in self.mailbox.refused)
            time.sleep(pause)
            pause, waiting = min(2 * pause, LONGEST_PAUSE), self.present(waiting)
        self._remember(asked, waiting)
        return replies, repeats

    def _why(self, waiting: list[int]) -> str:
        """Return which clients gave no usable reply to the last request, and why."""
        reasons: dict[str, list[str]] = {}
        for client in waiting:
            reasons.setdefault(self._reason(client), []).append(self.nodes[client].name or f"client {client}")
        return "; ".join(f"{first_of(names)}: {reason}" for reason, names in reasons.items())

    def _reason(self, client: int) -> str:
        """Return why the last request to a client has no usable reply."""
        return self.mailbox.refused.get(self.nodes[client].node, self.mailbox.silence)

    def _remember(self, asked: list[int], waiting: list[int]) -> None:
        """Count the refusals in a row of the clients that were `asked`, of which those `waiting` gave no usable reply."""
        for client in asked:
            if client not in waiting:
                del self.nodes.refusals[client]
            elif self.nodes[client].node in self.mailbox.refused:
                self.nodes.refusals[client] += 1
                if self.nodes.refusals[client] == MOST_REFUSED:
                    log(WARNING, "%s: left out from now on, after %d refused replies", self.nodes[client].name, MOST_REFUSED)


def numbered(request: tuple[bytes, Any], attempt: int) -> tuple[bytes, Any]:
    """Return a request that counts the replies that were refused, so that the client computes a new one.

    Args:
        request: Header and body.
        attempt: Number of refused replies.
    """
    header, body = request
    return (json.dumps(json.loads(header) | {"attempt": attempt}).encode(), body) if attempt else request
