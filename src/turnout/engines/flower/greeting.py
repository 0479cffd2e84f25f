"""The handshake: which node is which client."""

import json
import time
from collections import Counter
from logging import WARNING
from typing import NamedTuple

from flwr.common.logger import log

from turnout.core.errors import UserError
from turnout.engines.flower.client_app import Handshake, refusal_of
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.registry import Registry

PAUSE = 0.2
"""Seconds between two greetings of nodes that have not answered."""

TELL_EVERY = 10.0
"""Seconds between two lines in the log about clients that are waited for."""

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
    """

    node: int | None
    rows: int
    name: str = ""
    claimed: bool = True


def handshake(
    mailbox: Mailbox,
    expected: Handshake,
    clients: int,
    timeout: float,
    registry: Registry | None = None,
    some_suffice: bool = False,
) -> dict[int, NodeInfo]:
    """Greet nodes until each of `clients` clients has answered, or none more for `timeout` seconds; return their nodes by client.

    Who a node is follows from its public key, which the SuperLink has checked, and from the registry. A node that does not agree
    with `expected`, or says that it is another client, is refused, and greeted again while clients are missing.

    Args:
        mailbox: Sends the messages.
        expected: The fields of the handshake.
        clients: Number of clients.
        timeout: Seconds to wait for a further client.
        registry: The clients by key; None takes every node's word for who it is.
        some_suffice: Whether the run can begin without some of the clients.
    """
    registry = registry or Registry.open(clients)
    greeting = Greeting(mailbox, expected, registry)
    end, next_line = time.monotonic() + timeout, time.monotonic() + TELL_EVERY
    while len(greeting.nodes) < clients:
        before = len(greeting.nodes)
        greeting.greet()
        if len(greeting.nodes) > before:
            end = time.monotonic() + timeout
        missing = [member.name for i, member in enumerate(registry.members) if i not in greeting.nodes]
        if missing and time.monotonic() > end:
            reasons = "".join(f"; refused: {reason}" for reason in greeting.refused.values())
            sentence = f"{len(missing)} clients did not answer within {timeout:g} s, the first is {missing[0]}{reasons}"
            if not (some_suffice and greeting.nodes):
                raise UserError(sentence)
            log(WARNING, "%s; the run begins without them: start again to let them in", sentence)
            break
        if missing and time.monotonic() > next_line:
            next_line += TELL_EVERY
            log(WARNING, "waiting for %d of %d clients, the first is %s", len(missing), clients, missing[0])
        if missing:
            time.sleep(PAUSE)
    mailbox.digest = expected.digest
    absent = {i: NodeInfo(None, member.rows or 0, member.name, False) for i, member in enumerate(registry.members)}
    return absent | greeting.nodes


class Greeting:
    """Greets nodes, and tells which of them are clients.

    Args:
        mailbox: Sends the messages.
        expected: The fields of the handshake.
        registry: The clients.
    """

    def __init__(self, mailbox: Mailbox, expected: Handshake, registry: Registry):
        self.mailbox, self.expected, self.registry = mailbox, expected, registry
        self.nodes: dict[int, NodeInfo] = {}
        self.refused: dict[int, str] = {}
        self.told: Counter[int] = Counter()

    def greet(self) -> None:
        """Greet the nodes that have connected and are no clients yet."""
        keys = {node.node_id: node.public_key for node in self.mailbox.grid.get_nodes()}
        new = keys.keys() - {info.node for info in self.nodes.values()}
        hello = self.expected.text.encode(), b""
        answers = self.mailbox.send(dict.fromkeys(new, hello), "hello", HELLO_BYTES, lambda body: None) if new else {}
        for node, body in answers.items():
            client, rows, reason = parse_hello(body[:], self.expected, len(self.registry.members))
            owner = self.registry.owner(keys[node])
            reason = reason or self._why_not(client, rows, owner)
            if reason is None:
                self.nodes[client] = self._info(node, client, rows)
            elif self.refused.get(node) != reason and self.told[node] < MOST_REFUSALS:
                self.refused[node] = reason
                self.told[node] += 1
                self.mailbox.counts[f"refused: {reason}"] += 1
                name = f"node {node}" if owner is None else f"the node of {self.registry.members[owner].name}"
                log(WARNING, "refused %s: %s", name, reason)

    def _why_not(self, client: int, rows: int, owner: int | None) -> str | None:
        """Return why a node with the key of the client `owner` cannot be `client` with so many `rows`; None if it can."""
        if self.registry.checks_keys and owner != client:
            whose = "not in the registry" if owner is None else f"that of {self.registry.members[owner].name}"
            return f"a node says that it is client {client}, but its key is {whose}: start it with the key of this client"
        if client in self.nodes:
            return f"a second node says that it is client {client}: give each node a client of its own"
        if self.registry.members[client].rows is None and rows > self.registry.most_rows:
            most = self.registry.most_rows
            return f"client {client} says that it has {rows:,} rows: write down how many it has if they are more than {most:,}"
        return None

    def _info(self, node: int, client: int, rows: int) -> NodeInfo:
        """Return what is known of an admitted node that says that it has `rows` rows."""
        member = self.registry.members[client]
        if member.rows not in (None, rows):
            log(
                WARNING,
                "%s says that it has %d rows, but the registry says %d: it counts for these",
                member.name,
                rows,
                member.rows,
            )
        return NodeInfo(node, member.rows or rows, member.name, member.rows is None)


def parse_hello(body: bytes, expected: Handshake, clients: int) -> tuple[int, int, str | None]:
    """Return the client that a node says it is, the number of its rows, and why the node is refused, or None.

    Args:
        body: The node's answer.
        expected: The fields of the handshake.
        clients: Number of clients.
    """
    try:
        fields = json.loads(body)
        client, rows, differences = fields["client"], fields["rows"], expected.differences(fields)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return -1, 0, "it did not say who it is"
    if type(client) is not int or not 0 <= client < clients:
        return -1, 0, f"a node says that it is client {str(client)[:20]}, but the clients are 0 to {clients - 1}"
    if type(rows) is not int or rows < 1:
        return client, 0, f"client {client} says that it has {str(rows)[:20]} rows, but every client has at least one"
    if refusal_of(fields) is not None:
        return client, rows, refusal_of(fields)
    if differences:
        remedy = "give the server and all nodes the same version of turnout and the same configuration"
        return client, rows, f"client {client} does not agree on {', '.join(differences)}: {remedy}"
    return client, rows, None
