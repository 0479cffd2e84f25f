"""The handshake: which node is which client, at the start and while clients come and go."""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from logging import WARNING
from math import ceil
from typing import Literal, NamedTuple

from flwr.common.logger import log

from turnout.core.errors import UserError
from turnout.core.schema import OTHER_SCHEMA
from turnout.engines.flower.client_app import Handshake, refusal_of
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.registry import REVOKED, Registry, RegistryFile
from turnout.io.serialization import Buffer

PAUSE = 0.2
"""Seconds between two greetings of nodes that have not answered."""

TELL_EVERY = 10.0
"""Seconds between two lines in the log about clients that are waited for."""

GREETING_SECONDS, GREET_AGAIN = 10.0, 30.0
"""In a run, seconds for which an answer to a greeting is waited for, and until a node is greeted again."""

SHOWN = 5
"""Names in a line of the log."""

MOST_REFUSED = 5
"""Replies refused in a row after which a client is not asked any more."""

MOST_REFUSALS = 10
"""Different refusals of one node that are told."""

HELLO_BYTES = 2**16
"""Most bytes of a node's answer to the greeting."""


class NodeInfo(NamedTuple):
    """A client's node.

    Args:
        node: Id of the node; None while the client is absent.
        rows: Number of the client's rows; 0 if it is not known.
        name: Name of the client, for messages.
        claimed: Whether only the node says how many rows it has.
        sum_key: Digest of the key with which it encrypts replies; empty if it does not.
        schema: Digest of its classes and the names of its features; empty where it does not tell them.
    """

    node: int | None
    rows: int
    name: str = ""
    claimed: bool = True
    sum_key: str = ""
    schema: str = ""


Standing = Literal["present", "absent", "revoked", "left out"]


@dataclass
class MemberStatus:
    """What is known of one client.

    Args:
        name: Name of the client.
        standing: How it stands.
        rows: Number of its rows; 0 if it is not known.
        refused: Replies refused in a row.
        unusable: Number of its replies that could not be used or did not come, by reason.
    """

    name: str
    standing: Standing
    rows: int = 0
    refused: int = 0
    unusable: dict[str, int] = field(default_factory=dict)


class Hello(NamedTuple):
    """A node's answer to the greeting.

    Args:
        client: The client that it says it is.
        rows: The number of rows that it says it has.
        refusal: Why it is refused, or None.
        sum_key: Digest of the key with which it encrypts replies; empty if it does not.
        schema: Digest of its classes and the names of its features; empty where it does not tell them.
    """

    client: int
    rows: int
    refusal: str | None
    sum_key: str = ""
    schema: str = ""


def handshake(
    mailbox: Mailbox,
    expected: Handshake,
    clients: int,
    timeout: float,
    registry: Registry | RegistryFile | None = None,
    some_suffice: bool = False,
    quorum: float | None = None,
    watch: "Watch | None" = None,
) -> "Members":
    """Greet nodes until each of `clients` clients has answered, or a quorum, or none more for `timeout` seconds; return them.

    Who a node is follows from its public key, which the SuperLink has checked, and from the registry. A node that does not agree
    with `expected`, or says that it is another client, is refused, and greeted again while clients are missing.

    Args:
        mailbox: Sends the messages.
        expected: The fields of the handshake.
        clients: Number of clients.
        timeout: Seconds to wait for a further client.
        registry: The clients by key; None takes every node's word for who it is.
        some_suffice: Whether the run can go on without some of the clients.
        quorum: How many clients must be there, or which share of those that are not revoked; None for all.
        watch: Told what the server waits for.
    """
    return gathered(Members(mailbox, expected, registry or Registry.open(clients), quorum, watch), timeout, some_suffice)


def gathered(members: "Members", timeout: float, some_suffice: bool = False) -> "Members":
    """Greet nodes until each of the `members` has answered, or a quorum, or none more for `timeout` seconds; return them.

    Args:
        members: The clients.
        timeout: Seconds to wait for a further client.
        some_suffice: Whether the run can go on without some of the clients.
    """
    if members.revoked and not some_suffice:
        raise UserError(f"{first_of(members.revoked)}: revoked, but the run needs all clients: set [faults] missing to 'skip'")
    end, wait = time.monotonic() + timeout, Wait(members)
    while len(members.nodes) < members.least:
        before = len(members.nodes)
        members.greet()
        if len(members.nodes) > before:
            end = time.monotonic() + timeout
        missing = [members[i].name for i in members if members[i].node is None and not members.registry.members[i].revoked]
        if len(members.nodes) < members.least and time.monotonic() > end:
            reasons = "".join(f"; refused: {reason}" for reason in members.refused.values())
            sentence = f"{len(missing)} clients did not answer within {timeout:g} s, the first is {missing[0]}{reasons}"
            if not (some_suffice and members.nodes) or members.quorum is not None:
                raise UserError(sentence)
            log(WARNING, "%s; the run begins without them", sentence)
            break
        if len(members.nodes) < members.least:
            wait.tell(f"waiting for {len(missing)} of {len(members)} clients, the first is {missing[0]}")
            time.sleep(PAUSE)
    members.mailbox.digest = members.expected.digest
    return members


def first_of(names: list[str]) -> str:
    """Return some of the names, and the number of the others."""
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} others"


class Wait:
    """Tells what is waited for: to the log at most every `TELL_EVERY` seconds, and not at once.

    Args:
        members: The clients, whose `watch` is told at once.
    """

    def __init__(self, members: "Members"):
        self.members, self._next = members, time.monotonic() + TELL_EVERY

    def tell(self, sentence: str) -> None:
        """Write a line to the log, if it is time for one."""
        self.members.watch(self.members, sentence)
        if time.monotonic() > self._next:
            self._next += TELL_EVERY
            log(WARNING, "%s", sentence)


class Members(Mapping[int, NodeInfo]):
    """The clients of a federation by number, with their nodes, which come and go.

    Args:
        mailbox: Sends the greetings.
        expected: The fields of the handshake.
        registry: The clients by key.
        quorum: How many clients must be there, or which share of those that are not revoked; None for all.
        watch: Told what the server waits for.

    Attributes:
        nodes: The nodes that were admitted, by client.
        connected: Ids of the nodes that are connected.
        refusals: Replies refused in a row, by client.
        unusable: Replies that could not be used or did not come, by client and reason.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        expected: Handshake,
        registry: Registry | RegistryFile,
        quorum: float | None = None,
        watch: "Watch | None" = None,
    ):
        self.mailbox, self.expected, self.quorum, self._registry = mailbox, expected, quorum, registry
        self.watch: Watch = watch or (lambda members, sentence: None)
        self.nodes: dict[int, NodeInfo] = {}
        self.connected: set[int] = set()
        self.refusals: Counter[int] = Counter()
        self.unusable: dict[int, Counter[str]] = defaultdict(Counter)
        self.refused: dict[int, str] = {}
        self.told: Counter[int] = Counter()
        self._keys: dict[int, bytes | None] = {}
        self._next: dict[int, float] = {}

    def __getitem__(self, client: int) -> NodeInfo:
        if client in self.nodes:
            return self.nodes[client]
        member = self.registry.members[client]
        return NodeInfo(None, member.rows or 0, member.name, False)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return len(self.registry.members)

    @property
    def registry(self) -> Registry:
        """The registry as it is now."""
        return self._registry.read() if isinstance(self._registry, RegistryFile) else self._registry

    @property
    def revoked(self) -> list[str]:
        """Names of the clients whose nodes are refused."""
        return [member.name for member in self.registry.members if member.revoked]

    @property
    def registered(self) -> int:
        """How many clients are not revoked."""
        return len(self) - len(self.revoked)

    @property
    def least(self) -> int:
        """How many clients must be there."""
        registered = self.registered
        if self.quorum is None:
            least = max(1, registered)
        else:
            least = self.quorum if isinstance(self.quorum, int) else ceil(round(self.quorum * registered, 9))
        if not 0 < least <= registered:
            raise UserError(f"the run needs {least} clients, but only {registered} are registered: register more, or lower start")
        return least

    def look(self) -> dict[int, bytes]:
        """Notice who is connected, and return the public keys of connected nodes by id."""
        keys = {node.node_id: node.public_key for node in self.mailbox.grid.get_nodes()}
        changes = (("connected again", {*keys} - self.connected), ("disconnected", self.connected - {*keys}))
        for what, nodes in changes:
            names = [info.name for info in self.nodes.values() if info.node in nodes]
            if names:
                log(WARNING, "%s: %s", first_of(names), what)
        self.connected = {*keys}
        return keys

    @property
    def left_out(self) -> list[int]:
        """The clients that are not asked any more, since their replies were refused."""
        return [client for client, count in self.refusals.items() if count >= MOST_REFUSED]

    @property
    def present(self) -> set[int]:
        """The clients whose nodes are connected and are asked."""
        return {client for client, info in self.nodes.items() if info.node in self.connected} - {*self.left_out}

    def standings(self) -> list[Standing]:
        """Return for each client whether it is present, absent, revoked or left out."""
        left_out, present = {*self.left_out}, self.present
        return [
            "revoked" if member.revoked else "left out" if i in left_out else "present" if i in present else "absent"
            for i, member in enumerate(self.registry.members)
        ]

    def statuses(self) -> list[MemberStatus]:
        """Return what is known of each client."""
        standings = self.standings()
        return [
            MemberStatus(self[i].name, standings[i], self[i].rows, self.refusals[i], dict(self.unusable.get(i, {}))) for i in self
        ]

    def of_hubs(self) -> list[MemberStatus]:
        """Return what is known of each hub between the server and the clients; here there are none."""
        return []

    def dismiss(self) -> None:
        """Take leave of clients that were revoked, or have another key."""
        registry = self.registry
        for client in [*self.nodes]:
            member = registry.members[client]
            if member.revoked or member.key != self._keys[client]:
                log(WARNING, "%s: left, %s", member.name, REVOKED if member.revoked else "since it has another key")
                del self.nodes[client]

    def greet(self, pause: float = 0.0) -> None:
        """Greet the nodes that have connected and are no clients yet; those that were greeted in vain only after a `pause`."""
        keys, now = self.look(), time.monotonic()
        if len(self.nodes) == len(self):
            return
        clients = {info.node for info in self.nodes.values()}
        new = [node for node in keys if node not in clients and now >= self._next.get(node, now)]
        self._next |= dict.fromkeys(new, now + pause)
        for node, body in self.answers(new, pause).items():
            hello = parse_hello(body[:], self.expected, len(self))
            client, owner = hello.client, self.registry.owner(keys[node])
            reason = (
                hello.refusal or self._why_not(client, hello.rows, owner) or self._other_key(hello) or self._other_schema(hello)
            )
            if reason is None:
                self.nodes[client], self._keys[client] = self._info(node, hello), self.registry.members[client].key
                if pause:
                    log(WARNING, "%s: joined", self.nodes[client].name)
            elif self.refused.get(node) != reason and self.told[node] < MOST_REFUSALS:
                self.refused[node] = reason
                self.told[node] += 1
                self.mailbox.counts[f"refused: {reason}"] += 1
                name = f"node {node}" if owner is None else f"the node of {self.registry.members[owner].name}"
                log(WARNING, "refused %s: %s", name, reason)

    def answers(self, nodes: list[int], pause: float) -> dict[int, Buffer]:
        """Return the answers of nodes to the greeting; in a run, which has a `pause`, it is waited for them for a short time.

        Args:
            nodes: Ids of the nodes.
            pause: Seconds until a node is greeted again.
        """
        if not nodes:
            return {}
        # What the mailbox says of the last exchange stays as it is.
        mailbox, hello = copy(self.mailbox), (self.expected.text.encode(), b"")
        mailbox.deadline = min(mailbox.deadline, GREETING_SECONDS) if pause else mailbox.deadline
        return mailbox.send(dict.fromkeys(nodes, hello), "hello", HELLO_BYTES, lambda body: None)

    def _why_not(self, client: int, rows: int, owner: int | None) -> str | None:
        """Return why a node with the key of the client `owner` cannot be `client` with so many `rows`; None if it can."""
        if self.registry.checks_keys and owner != client:
            whose = "not in the registry" if owner is None else f"that of {self.registry.members[owner].name}"
            return f"a node says that it is client {client}, but its key is {whose}: start it with the key of this client"
        if self.registry.members[client].revoked:
            return REVOKED
        if client in self.nodes:
            return f"a second node says that it is client {client}: give each node a client of its own"
        if self.registry.members[client].rows is None and rows > self.registry.most_rows:
            most = self.registry.most_rows
            return f"client {client} says that it has {rows:,} rows: write down how many it has if they are more than {most:,}"
        return None

    def _other_key(self, hello: Hello) -> str | None:
        """Return why a node cannot encrypt replies together with those that were admitted; None if it can."""
        other = next((info for info in self.nodes.values() if info.sum_key != hello.sum_key), None)
        if other is None:
            return None
        return f"client {hello.client} has another key for sums than {other.name}: give all members the same file for --sum-key"

    def _other_schema(self, hello: Hello) -> str | None:
        """Return why a node's numbers do not stand for what those of the others do; None if they do."""
        known = {info.name: info.schema for info in self.nodes.values() if info.schema}
        name, schema = next(iter(known.items()), ("the server", self.expected.schema))
        if self.expected.schema is None or not (hello.schema and schema) or hello.schema == schema:
            return None
        return f"client {hello.client} has other classes or features than {name}: {OTHER_SCHEMA}"

    def _info(self, node: int, hello: Hello) -> NodeInfo:
        """Return what is known of an admitted node."""
        member, rows = self.registry.members[hello.client], hello.rows
        if member.rows not in (None, rows):
            log(
                WARNING,
                "%s says that it has %d rows, but the registry says %d: it counts for these",
                member.name,
                rows,
                member.rows,
            )
        return NodeInfo(node, member.rows or rows, member.name, member.rows is None, hello.sum_key, hello.schema)


Watch = Callable[[Members, str], None]


def parse_hello(body: bytes, expected: Handshake, clients: int) -> Hello:
    """Return what a node answers to the greeting.

    Args:
        body: The node's answer.
        expected: The fields of the handshake.
        clients: Number of clients.
    """
    try:
        fields = json.loads(body)
        client, rows, differences = fields["client"], fields["rows"], expected.differences(fields)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Hello(-1, 0, "it did not say who it is")
    if type(client) is not int or not 0 <= client < clients:
        return Hello(-1, 0, f"a node says that it is client {str(client)[:20]}, but the clients are 0 to {clients - 1}")
    if type(rows) is not int or rows < 1:
        return Hello(client, 0, f"client {client} says that it has {str(rows)[:20]} rows, but every client has at least one")
    if refusal_of(fields) is not None:
        return Hello(client, rows, refusal_of(fields))
    if differences:
        remedy = "give the server and all nodes the same version of turnout and the same configuration"
        return Hello(client, rows, f"client {client} does not agree on {', '.join(differences)}: {remedy}")
    sum_key, schema = (str(fields.get(name, "")) for name in ("sum_key", "schema"))
    return Hello(client, rows, None, sum_key if expected.encrypted else "", schema)
