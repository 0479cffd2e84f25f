"""Requests in flight to clients, whose replies are taken as they come."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from logging import WARNING
from typing import NamedTuple

from flwr.app import Message
from flwr.common.logger import log

from turnout.core.errors import UserError
from turnout.engines.flower.clients import FIRST_PAUSE, LONGEST_PAUSE, TRIES, Clients, numbered
from turnout.engines.flower.mailbox import POLL, is_away, is_lost, opened
from turnout.engines.flower.transfers import Transfers
from turnout.io.serialization import Buffer

GONE = "gone"
"""Stands for the id of a message that did not reach the SuperLink."""


class Landed(NamedTuple):
    """A request that is no longer in flight.

    Args:
        client: Its client.
        reply: The reply; None where none came.
        microseconds: When it came, on the clock of the run.
        seconds: How long it took, the last try alone.
        repeats: How often the client was asked again.
    """

    client: int
    reply: Buffer | None
    microseconds: int
    seconds: float
    repeats: int


@dataclass
class Open:
    """A request in flight.

    Args:
        request: Header and body.
        at: When it was sent, or is to be sent again.
        message: Id of the message that asks for it; "" while it waits to be sent again.
        begun: Whether the reply to this message has begun to come.
        tries: How often it was sent.
        refused: How often its reply was refused.
        lost: Whether it was sent again since the SuperLink had lost it.
    """

    request: tuple[bytes, bytes]
    at: float
    message: str = ""
    begun: bool = False
    tries: int = 1
    refused: int = 0
    lost: bool = False


class OpenRequests:
    """Sends requests to clients, and hands out replies in the order in which they come.

    Args:
        clients: The clients.
        limit: Most bytes of a reply.
        check: Returns why a reply cannot be used, or None.
        repeats: Whether a client whose reply is missing is asked again.
        elapsed: Seconds on the clock of the run when it begins here.
    """

    def __init__(self, clients: Clients, limit: int, check: Callable[[Buffer], str | None], repeats: bool, elapsed: float):
        self.clients, self.mailbox, self.limit, self.check, self.repeats = clients, clients.mailbox, limit, check, repeats
        self._open: dict[int, Open] = {}
        self._landed: list[Landed] = []
        self._transfers = Transfers(self.mailbox.grid, limit)
        self._origin = time.monotonic() - elapsed

    def post(self, requests: dict[int, tuple[bytes, bytes]]) -> None:
        """Put requests in flight; one to a client that is away, where a run goes on without it, lands at once.

        Args:
            requests: Header and body of the request to each client.
        """
        now = time.monotonic()
        self._open |= {client: Open(request, now) for client, request in requests.items()}
        present = {*self.clients.present(requests)}
        for client in requests.keys() - present:
            self._land(client, None)
        self._push([client for client in requests if client in present])

    def wait(self, count: int) -> list[Landed]:
        """Return the next `count` requests to land, in this order.

        Args:
            count: How many, at most as many as are in flight.
        """
        while len(self._landed) < count:
            self._give_up()
            self._fetch()
            if len(self._landed) < count:
                time.sleep(POLL)
        taken, self._landed = self._landed[:count], self._landed[count:]
        return taken

    def _push(self, clients: list[int]) -> None:
        now, of_node = time.monotonic(), {self.clients.nodes[i].node: self._open[i] for i in clients}
        requests = {node: numbered(each.request, each.refused) for node, each in of_node.items()}
        for message, node in self.mailbox.push(requests, f"ask_{self.mailbox.digest}").items():
            of_node[node].message = message
        for each in of_node.values():
            each.at, each.begun, each.message = now, False, each.message or GONE

    def _fetch(self) -> None:
        """Take what has come in reply to the last message of each request; replies to former ones are left alone."""
        client_of = {request.message: client for client, request in self._open.items()}
        unheard = {request.message for request in self._open.values() if not request.begun} - {"", GONE}
        for message in self._transfers.look(unheard) if unheard else ():
            self._open[client_of[message]].begun = True
        for part in self._transfers.advance() if len(self._transfers) else ():
            if part is not None and part[0] in client_of and not self._late(client_of[part[0]]):
                self._take(client_of[part[0]], part[1])
        if not len(self._transfers):
            self._transfers.close()
            self._transfers = Transfers(self.mailbox.grid, self.limit)

    def _take(self, client: int, reply: Message) -> None:
        """Let a request land whose reply can be used, and send one again that the SuperLink has lost, once."""
        request, (body, reason) = self._open[client], opened(reply)
        if is_lost(reply) and not request.lost:
            request.lost, request.at, request.message = True, time.monotonic(), ""
            return
        reason = reason if body is None else self.check(body)
        self._refuse(client, reason, refused=not is_away(reply)) if reason is not None else self._land(client, body)

    def _give_up(self) -> None:
        """Refuse what is too late, and send again what waits for it."""
        now = time.monotonic()
        for client, request in [*self._open.items()]:
            if request.message and self._late(client):
                self._refuse(client, f"no reply within {self.mailbox.deadline:g} s", refused=False)
        again = [client for client, request in self._open.items() if not request.message and now >= request.at]
        if again:
            self._push([client for client in again if client in {*self.clients.present(again)}])

    def _late(self, client: int) -> bool:
        """Return whether the reply to a request is not waited for any longer."""
        return time.monotonic() > self._open[client].at + self.mailbox.deadline

    def _refuse(self, client: int, reason: str, refused: bool) -> None:
        """Ask a client again whose reply is missing, where that is configured, else let its request land without one."""
        request, name = self._open[client], self.clients.nodes[client].name or f"client {client}"
        self.mailbox.counts[reason if refused else "late or missing"] += 1
        self.clients.nodes.unusable[client][reason] += 1
        if not self.repeats:
            log(WARNING, "%s: %s: goes on without this reply", name, reason)
            self._land(client, None)
            return
        if request.tries == TRIES:
            raise UserError(
                f"{name}: {reason}, after {TRIES} requests: look into the logs of the nodes, then start again to continue"
            )
        pause = min(FIRST_PAUSE * 2 ** (request.tries - 1), LONGEST_PAUSE)
        log(WARNING, "%s: %s: asked again in %g s (%d of %d requests)", name, reason, pause, request.tries, TRIES)
        request.tries, request.refused = request.tries + 1, request.refused + refused
        request.at, request.message = time.monotonic() + pause, ""

    def _land(self, client: int, reply: Buffer | None) -> None:
        request, now = self._open.pop(client), time.monotonic()
        microseconds = round(1e6 * (now - self._origin))
        self._landed.append(Landed(client, reply, microseconds, now - request.at, request.tries - 1))
