"""The hubs of a federation as the server's own clients, which play rounds by themselves."""

import time
from collections.abc import Callable, Mapping
from logging import WARNING
from typing import Any, NamedTuple, Protocol, runtime_checkable

from flwr.common.logger import log

from turnout.engines.flower.clients import Clients
from turnout.engines.flower.greeting import Members, first_of
from turnout.engines.flower.hub_mailbox import SHARE
from turnout.engines.flower.hub_members import ClientsOfHubs
from turnout.engines.flower.hub_play import PLAY
from turnout.engines.flower.mailbox import Mailbox, Requests
from turnout.io.serialization import Buffer


@runtime_checkable
class Reader(Protocol):
    """Reads the reply of a hub."""

    @property
    def limit(self) -> int:
        """Most bytes of a reply."""
        ...

    def read(self, body: Buffer) -> Any:
        """Return what came of the hub, or how many exchanges it has made so far; `ValueError` where it is not valid."""


class Results(NamedTuple):
    """What hubs at work have sent.

    Args:
        played: What came of each hub that has answered.
        why: Why each other hub has not.
        seconds: How long all of it took.
    """

    played: dict[int, Any]
    why: dict[int, str]
    seconds: float


class PlayMailbox(Mailbox):
    """Sends requests to hubs, each of which may reply something else.

    Args:
        mailbox: Reaches the hubs.
        hubs: The hubs.

    Attributes:
        terms: What each hub may reply.
        read: What came of each hub, or how many exchanges it had made, in its last reply.
    """

    def __init__(self, mailbox: Mailbox, hubs: Members):
        super().__init__(mailbox.grid, mailbox.deadline)
        self.mailbox, self.hubs, self.counts = mailbox, hubs, mailbox.counts
        self.terms: Mapping[int, Reader] = {}
        self.read: dict[int, Any] = {}

    def send(self, requests: Requests, kind: str, limit: int, check: Callable[[Buffer], str | None]) -> dict[int, Buffer]:
        self.mailbox.deadline = self.deadline
        bodies = self.mailbox.send(requests, kind, limit, check)
        self.refused, self.silence = {**self.mailbox.refused}, self.mailbox.silence
        of = {info.node: hub for hub, info in self.hubs.nodes.items()}
        good = {}
        for node, body in bodies.items():
            try:
                self.read[of[node]] = self.terms[of[node]].read(body)
            except ValueError as error:
                self.refused[node] = f"a hub's reply is {error}"
                self.counts[self.refused[node]] += 1
            else:
                good[node] = body
        return good


class HubsAtWork:
    """Has hubs play, and waits for what comes of it.

    A hub answers within a deadline, if only that it is still at work. It is then asked again, as long as it has made further
    exchanges since; where no client may be missing, as long as it answers.

    Args:
        mailbox: Reaches the hubs.
        hubs: The hubs.
        skips: Whether a run goes on without clients that are away.
        digest: The digest of the handshake.

    Attributes:
        exchanges: How many exchanges the hubs that are still at work have told of.
    """

    def __init__(self, mailbox: Mailbox, hubs: Members, skips: bool, digest: str):
        self.mailbox, self.hubs, self.skips = PlayMailbox(mailbox, hubs), hubs, skips
        self.mailbox.digest = digest
        self.clients = Clients(self.mailbox, hubs, skips)
        self.exchanges = 0

    @classmethod
    def of(cls, clients: ClientsOfHubs, skips: bool) -> "HubsAtWork":
        """Return the hubs of some clients.

        Args:
            clients: The clients, which are reached through the hubs.
            skips: Whether a run goes on without clients that are away.
        """
        through = clients.through
        through.mailbox.deadline, through.skips = through.deadline, skips
        return cls(through.mailbox, clients.hubs, skips, through.digest)

    @property
    def seconds(self) -> float:
        """Within how many seconds a hub has to answer."""
        return SHARE * self.mailbox.deadline

    def play(self, requests: dict[int, tuple[bytes, Any]], terms: Mapping[int, Reader], repeats: bool) -> Results:
        """Return what comes of requests to play.

        Args:
            requests: Header and body of the request to each hub.
            terms: What each hub may reply.
            repeats: Whether hubs whose reply is missing are asked again.
        """
        began, waiting, told = time.monotonic(), requests, dict[int, int]()
        played: dict[int, Any] = {}
        why: dict[int, str] = {}
        limit = max((each.limit for each in terms.values()), default=0)
        self.mailbox.terms = terms
        while waiting:
            dispensable = 0 if repeats else len(waiting)
            replies, _ = self.clients.ask(waiting, PLAY, limit, lambda body: None, dispensable)
            why |= {hub: self._reason(hub) for hub in waiting if hub not in replies}
            read = {hub: self.mailbox.read[hub] for hub in replies}
            played |= {hub: each for hub, each in read.items() if not isinstance(each, int)}
            busy = {hub: each for hub, each in read.items() if isinstance(each, int)}
            stuck = {hub for hub, exchanges in busy.items() if self.skips and exchanges <= told.get(hub, 0)}
            if stuck:
                why |= dict.fromkeys(stuck, f"no further exchange within {self.seconds:g} s")
                log(WARNING, "%s: %s: left out", first_of([self.hubs[hub].name for hub in stuck]), why[min(stuck)])
            told |= busy
            self.exchanges = sum(told.values())
            waiting = {hub: requests[hub] for hub in busy if hub not in stuck}
        return Results(played, why, time.monotonic() - began)

    def _reason(self, hub: int) -> str:
        node = self.hubs[hub].node
        return "not connected" if node is None else self.mailbox.refused.get(node, self.mailbox.silence)
