"""The clients of a federation with hubs: those of a hub are there as long as it is, and a hub knows its own."""

import json
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from logging import WARNING
from typing import NamedTuple

from flwr.common.logger import log
from jaxtyping import PyTree

from turnout.engines.flower.client_app import Handshake, shown
from turnout.engines.flower.clients import Clients
from turnout.engines.flower.greeting import SHOWN, Hello, Members, NodeInfo, Watch, first_of
from turnout.engines.flower.hub_mailbox import HubMailbox
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.registry import Member, Registry, RegistryFile

AGAIN = 2.0
"""Seconds until a hub greets a node again that has not answered."""

OTHER_NUMBER = "this is a client of another hub: start turnout hub with the place in [hubs] that its key is for"

OTHERS = Member("a client of another hub", revoked=True)
"""Who stands in the registry of a hub for a client of another one."""


class Derived:
    """A registry that follows from another one, and is made anew when that has changed.

    Args:
        make: Makes the one from the other.
    """

    def __init__(self, make: Callable[[Registry], Registry]):
        self.make, self._of, self._made = make, None, Registry(())

    def __call__(self, registry: Registry) -> Registry:
        if registry is not self._of:
            self._of, self._made = registry, self.make(registry)
        return self._made


class ClientsOfHubs(Members):
    """The clients of a federation as the server sees them: what is known of each is what its hub says.

    Args:
        mailbox: Reaches the clients through the hubs.
        expected: The fields of the handshake.
        hubs: The hubs, as the nodes that the SuperLink knows.
        of: The hub of each client; None for one that is not below these hubs.
        quorum: How many clients must be there, or which share of those that are not revoked; None for all.
        watch: Told what the server waits for.
    """

    def __init__(
        self,
        mailbox: HubMailbox,
        expected: Handshake,
        hubs: Members,
        of: list[int | None],
        quorum: float | None = None,
        watch: Watch | None = None,
    ):
        super().__init__(mailbox, expected, Registry.open(len(of)), quorum, watch)
        self.through, self.hubs, self.of = mailbox, hubs, of
        # What hubs are refused for is told where clients are waited for.
        self.refused = hubs.refused
        self._clients = Derived(partial(_clients, of))

    @property
    def registry(self) -> Registry:
        """The clients; those of a revoked hub are revoked."""
        return self._clients(self.hubs.registry)

    @property
    def left_out(self) -> list[int]:
        """The clients that are not asked any more, since their replies were refused, or those of their hub."""
        hubs, own = self.hubs.left_out, super().left_out
        return [client for client in self if client in own or self.of[client] in hubs]

    def look(self) -> dict[int, bytes]:
        keys = self.hubs.look()
        here = {hub for hub, info in self.hubs.nodes.items() if info.node in keys}
        self.connected = {client for client in self.nodes if self.of[client] in here}
        return keys

    def of_hubs(self):
        return self.hubs.statuses()

    def dismiss(self) -> None:
        self.hubs.dismiss()
        super().dismiss()

    def greet(self, pause: float = 0.0) -> None:
        self.hubs.greet(pause)
        keys, now = self.look(), time.monotonic()
        missing = {self.of[client] for client in self if client not in self.nodes}
        nodes = {info.node: hub for hub, info in self.hubs.nodes.items() if hub in missing and info.node in keys}
        asked = [node for node in nodes if now >= self._next.get(node, now)]
        self._next |= dict.fromkeys(asked, now + pause)
        for node, body in self.hubs.answers(asked, pause).items():
            self._join(nodes[node], told_by_hub(body[:]), pause)
        self.look()

    def _join(self, hub: int, said: "Told", pause: float) -> None:
        """Admit the clients that a hub says it has, where they are its own."""
        members, joined = self.registry.members, []
        own = {client for client, which in enumerate(self.of) if which == hub}
        self._tell(hub, [f"it says that it has client {i}: {OTHER_NUMBER}" for i in sorted(said.rows.keys() - own)[:1]], said)
        for client in sorted(own & said.rows.keys() - self.nodes.keys()):
            sum_key = said.sum_key if self.expected.encrypted else ""
            hello = Hello(client, said.rows[client], None, sum_key, said.schema)
            reason = self._why_not(client, hello.rows, None) or self._other_key(hello) or self._other_schema(hello)
            if reason is None:
                info = NodeInfo(client, hello.rows, members[client].name, True, hello.sum_key, hello.schema)
                self.nodes[client], self._keys[client] = info, None
                joined.append(info.name)
            elif self.refused.get(client) != reason:
                self.refused[client] = reason
                self.mailbox.counts[f"refused: {reason}"] += 1
                log(WARNING, "refused %s of hub %d: %s", members[client].name, hub, reason)
        if joined and pause:
            log(WARNING, "%s of hub %d: joined", first_of(joined), hub)

    def _tell(self, hub: int, reasons: list[str], said: "Told") -> None:
        """Write down why nodes of a hub are refused, there or here."""
        told = "; ".join(f"{self.hubs[hub].name}: {reason}" for reason in [*reasons, *said.refused])
        # No node and no client has a number below 0.
        if told and self.refused.get(-1 - hub) != told:
            self.refused[-1 - hub] = told
            log(WARNING, "%s", told)


def _clients(of: list[int | None], hubs: Registry) -> Registry:
    """Return the registry of the clients, given the hub of each, and that of the hubs."""
    each = enumerate(of)
    members = (OTHERS if hub is None else Member(f"client {i}", revoked=hubs.members[hub].revoked) for i, hub in each)
    return Registry(tuple(members), hubs.most_rows)


def reached(
    mailbox: Mailbox, expected: Handshake, registry: Registry | RegistryFile, of: list[int | None], start: PyTree
) -> tuple[HubMailbox, Members]:
    """Return the mailbox that reaches clients through hubs, and the hubs.

    Args:
        mailbox: Reaches the hubs.
        expected: The fields of the handshake.
        registry: The hubs by key.
        of: The hub of each client; None for one that is not below these hubs.
        start: Initial parameters.
    """
    # The classes of a hub's clients, and their key for sums, are known later than the hub.
    hubs = Members(mailbox, replace(expected, schema=None, encrypted=False), registry)
    return HubMailbox(mailbox, lambda: {hub: info.node for hub, info in hubs.nodes.items()}, of, start), hubs


class Told(NamedTuple):
    """What a hub answers to the greeting.

    Args:
        rows: Number of rows of each client that it says it has.
        schema: A digest of the classes and the features of the clients; empty where they do not tell it.
        sum_key: A digest of the key with which its clients encrypt replies; empty where they do not, or none is known.
        refused: Why nodes are refused that are connected to it, or to a hub below it.
    """

    rows: dict[int, int]
    schema: str = ""
    sum_key: str = ""
    refused: list[str] = []


def told_by_hub(body: bytes) -> Told:
    """Return what a hub answers to the greeting; nobody where it is not valid."""
    try:
        fields = json.loads(body)
        rows = {int(client): count for client, count in fields["clients"].items()}
        schema, sum_key = (str(fields.get(name, "")) for name in ("schema", "sum_key"))
        reasons = [shown(str(reason)) for reason in fields.get("refused", [])[:SHOWN]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Told({})
    return Told({client: count for client, count in rows.items() if type(count) is int and count > 0}, schema, sum_key, reasons)


class OfHub(Members):
    """The clients of one hub, which keep the numbers that they have in the whole federation.

    Attributes:
        own: The numbers of the clients of the hub.
    """

    own: list[int]

    @property
    def least(self) -> int:
        # A hub waits for nobody: the server does.
        return 0

    @property
    def rows(self) -> dict[int, int]:
        """The number of rows of each client that has been here."""
        return {client: max(1, info.rows) for client, info in sorted(self.nodes.items())}

    @property
    def schema(self) -> str:
        """A digest of the classes and the features of the clients; empty where they do not tell it."""
        return next((info.schema for info in self.nodes.values() if info.schema), "")

    @property
    def sum_key(self) -> str:
        """A digest of the key with which its clients encrypt replies; empty where they do not, or none is known."""
        return next((info.sum_key for info in self.nodes.values()), "")


class NodesOfHub(OfHub):
    """The clients of a hub that are nodes of its SuperLink.

    Args:
        mailbox: Sends the greetings.
        expected: The fields of the handshake.
        registry: The clients of the hub by key, in the order of their numbers.
        own: The numbers of the clients of the hub.
        clients: Number of clients of the federation.
    """

    def __init__(self, mailbox: Mailbox, expected: Handshake, registry: Registry | RegistryFile, own: list[int], clients: int):
        self.own, self._all = own, Derived(partial(_spread, own, clients))
        super().__init__(mailbox, expected, registry, 0)

    @property
    def registry(self) -> Registry:
        """The clients of the federation, of which those of other hubs are refused."""
        return self._all(super().registry)


class HubsOfHub(OfHub, ClientsOfHubs):
    """The clients of a hub that are connected to further hubs, which are the nodes of its SuperLink."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.own, self.quorum = [client for client, hub in enumerate(self.of) if hub is not None], 0


def _spread(own: list[int], clients: int, registry: Registry) -> Registry:
    """Return the registry of all `clients`, given that of the `own` ones of a hub."""
    members = [OTHERS] * clients
    for number, member in zip(own, registry.members, strict=True):
        members[number] = member
    return Registry(tuple(members), registry.most_rows)


class AskedByHub(Clients):
    """The clients of a hub, which are asked once, as far as they are there; the server asks again."""

    def present(self, clients: Collection[int]) -> list[int]:
        self.nodes.dismiss()
        self.nodes.greet(AGAIN)
        there = self.nodes.present if self.skips else {*self.nodes.nodes}
        return [client for client in clients if client in there]

    def _remember(self, asked, waiting):
        # The server counts refusals, and asks a client no more after some in a row.
        return None
