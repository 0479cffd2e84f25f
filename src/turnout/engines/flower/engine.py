"""Rounds with clients that are nodes of a Flower federation."""

import json
import time
from collections import Counter
from functools import partial
from logging import WARNING
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Message
from flwr.common.logger import log
from flwr.superlink.grid import HttpGrid
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.core.lazy_stack import release_pages
from turnout.engines.compiled_ask import CompiledAsk
from turnout.engines.flower.chunks import INTERRUPTED
from turnout.engines.flower.client_app import Handshake, refusal_of
from turnout.engines.flower.payload import pack, pack_body, unpack
from turnout.engines.flower.server_connection import pull_replies
from turnout.engines.inputs import Job
from turnout.engines.messaging import MessageAsk, MessageEngine
from turnout.engines.state import Progress, begin
from turnout.io.serialization import Buffer, decode

POLL = 0.02
"""Seconds between two requests for replies."""

RETRY_PAUSE = 10 * POLL
"""Seconds before clients that did not answer are asked again."""


class Mailbox:
    """Sends messages to nodes and collects the replies; `counts` has the number of unusable replies by reason.

    Requests carry `digest`, on which `handshake` agrees with the nodes.

    Args:
        grid: Connection to the SuperLink.
        deadline: Seconds that an exchange waits for replies.
    """

    def __init__(self, grid: HttpGrid, deadline: float):
        self.grid, self.deadline, self.counts = grid, deadline, Counter()
        self.digest = ""

    def send(self, requests: dict[int, tuple[bytes, bytes]], kind: str) -> dict[int, Buffer]:
        """Send a header and a body to each node, by its id, and return the replies before the deadline, by node.

        Args:
            requests: Header and body of the message to each node, by its id.
            kind: Kind of the request.
        """
        # The same body becomes the same object.
        bodies = {id(body): body for _, body in requests.values()}
        packed = {name: pack_body(body) for name, body in bodies.items()}
        messages = [Message(pack(packed[id(body)], header), node, f"query.{kind}") for node, (header, body) in requests.items()]
        received, end = {}, time.monotonic() + self.deadline
        try:
            sent = dict(zip(self.grid.push_messages(messages), requests, strict=True))
        except INTERRUPTED:
            self.counts["not asked, since the SuperLink was gone"] += len(requests)
            return received
        del messages, packed
        while sent:
            for message in pull_replies(self.grid, set(sent)):
                node = sent.pop(message.metadata.reply_to_message_id, None)
                body = self._body(message, node)
                if body is not None:
                    received[node] = body
            if time.monotonic() >= end:
                break
            if sent:
                time.sleep(POLL)
        self.counts["late or missing"] += len(sent)
        return received

    def _body(self, message: Message, node: int | None) -> Buffer | None:
        if node is None:
            self.counts["not asked for"] += 1
        elif message.has_error():
            self.counts[f"error {message.error.code}: {message.error.reason}"] += 1
        else:
            try:
                return unpack(message.content)[1]
            except ValueError:
                self.counts["malformed"] += 1
        return None


class NodeInfo(NamedTuple):
    """The id of a client's node, and the number of the client's rows.

    Args:
        node: Id of the node.
        rows: Number of the client's rows.
    """

    node: int
    rows: int


def handshake(mailbox: Mailbox, expected: Handshake, clients: int, timeout: float) -> dict[int, NodeInfo]:
    """Greet nodes until each of `clients` clients has answered, for at most `timeout` seconds; return their nodes by client.

    A node that does not agree with `expected`, or is none of the clients, is refused. It is greeted again while clients are
    missing.

    Args:
        mailbox: Sends the messages.
        expected: The fields of the handshake.
        clients: Number of clients.
        timeout: Seconds to wait for all clients.
    """
    nodes: dict[int, NodeInfo] = {}
    refused: dict[int, str] = {}
    end = time.monotonic() + timeout
    while len(nodes) < clients:
        new = set(mailbox.grid.get_node_ids()) - {info.node for info in nodes.values()}
        for node, hello in mailbox.send(dict.fromkeys(new, (expected.text.encode(), b"")), "hello").items():
            client, rows, reason = parse_hello(hello[:], expected, clients)
            if reason is None and client in nodes:
                raise UserError(f"two nodes say that they are client {client}: give each node a client of its own")
            if reason is None:
                nodes[client] = NodeInfo(node, rows)
            elif refused.get(node) != reason:
                refused[node] = reason
                mailbox.counts[f"refused: {reason}"] += 1
                log(WARNING, "refused node %d: %s", node, reason)
        if len(nodes) < clients and time.monotonic() > end:
            missing = min({*range(clients)} - {*nodes})
            reasons = "".join(f"; refused: {reason}" for reason in refused.values())
            raise UserError(
                f"{clients - len(nodes)} clients did not answer within {timeout:g} s, the first is client {missing}{reasons}"
            )
        if len(nodes) < clients:
            time.sleep(RETRY_PAUSE)
    mailbox.digest = expected.digest
    return nodes


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
    except (ValueError, LookupError, TypeError, AttributeError):
        return -1, 0, "it did not say who it is"
    if type(client) is not int or not 0 <= client < clients:
        return -1, 0, f"a node says that it is client {client}, but the clients are 0 to {clients - 1}"
    if type(rows) is not int or rows < 1:
        return client, 0, f"client {client} says that it has {rows} rows, but every client has at least one"
    if refusal_of(fields) is not None:
        return client, rows, refusal_of(fields)
    if differences:
        remedy = "give the server and all nodes the same version of turnout and the same configuration"
        return client, rows, f"client {client} does not agree on {', '.join(differences)}: {remedy}"
    return client, rows, None


class FlowerAsk(MessageAsk):
    """Answers `ask` by messages to nodes.

    Args:
        mailbox: Sends the messages.
        nodes: Node of each client.
        *arguments: Arguments of the base class.
    """

    def __init__(self, mailbox: Mailbox, nodes: dict[int, NodeInfo], *arguments):
        super().__init__(*arguments)
        self.mailbox, self.nodes = mailbox, nodes

    def connected(self):
        connected = set(self.mailbox.grid.get_node_ids())
        return jnp.asarray([self.nodes[i].node in connected for i in range(len(self.nodes))])

    def _exchange(self, requests, expected, losses):
        retries, waiting, arrived = np.zeros_like(losses), requests, {}
        while waiting:
            contents = {self.nodes[request.number].node: request[2:] for request in waiting}
            received = self.mailbox.send(contents, f"ask_{self.mailbox.digest}")
            for request in waiting:
                reply = received.get(self.nodes[request.number].node)
                if reply is not None and self._is_valid(reply, expected):
                    arrived[request.place] = reply
            waiting = [request for request in waiting if request.place not in arrived]
            if not waiting or self.job.faults is None or not self.job.faults.repeats:
                break
            retries[[request.place for request in waiting]] += 1
            time.sleep(RETRY_PAUSE)
        return arrived, retries

    def _is_valid(self, reply: Buffer, expected: PyTree) -> bool:
        error = validate_reply(reply, self.job.start, expected, ("queries", "missed"))
        if error is not None:
            self.mailbox.counts[error] += 1
        return error is None


def validate_reply(reply: Buffer, start: PyTree, expected: PyTree, counts: tuple[str, ...] = ()) -> str | None:
    """Return None if a reply has the expected structure, shapes, types and counts and is finite, and otherwise what is wrong.

    Args:
        reply: The reply.
        start: Initial parameters.
        expected: Shapes and types of a valid reply.
        counts: Names of the counts that must come with it.
    """
    try:
        tree, header = decode(reply, start)
    except UserError:
        return "malformed"
    if not all(type(count := header.get(name)) is int and 0 <= count < 2**31 for name in counts):
        return "without its counts"
    expected_leaves, expected_structure = jax.tree.flatten(expected)
    leaves, structure = jax.tree.flatten(tree)
    types, expected_types = ([(leaf.shape, leaf.dtype) for leaf in each] for each in (leaves, expected_leaves))
    if structure != expected_structure or types != expected_types:
        return "of another shape or type"
    # The smallest and the largest entry suffice, and need no copy of an array that may be large.
    finite = all(np.isfinite([np.min(leaf), np.max(leaf)]).all() for leaf in leaves if leaf.size)
    for leaf in leaves:
        release_pages(leaf)
    return None if finite else "not finite"


class Flower(MessageEngine):
    """Runs one algorithm with the nodes of a federation: the same run as with `Compiled`, as long as no reply is lost.

    Args:
        mailbox: Sends the messages.
        nodes: Node of each client.
        resumed: Whether the run starts from a checkpoint.
        job: Inputs of the engine: problem, initial parameters, seeds and options.
        algorithm: The algorithm, bound to the problem.
        metrics: Names of the metrics.
        every: Rounds between two trace rows.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        nodes: dict[int, NodeInfo],
        resumed: bool,
        job: Job,
        algorithm,
        metrics: tuple[str, ...],
        every: int,
    ):
        super().__init__(job, algorithm, metrics, every)
        self.mailbox, self.nodes = mailbox, nodes
        self.resumed, self.committed = resumed, self.versions.copy()
        self._asks = partial(FlowerAsk, mailbox, nodes, self.versions, self.committed, self.sums)

    def begin(self) -> Progress:
        """Return the state before the first round; the states of clients are represented by their versions.

        For a run that is `resumed` only the shapes are right, since the start is not to be repeated.
        """
        if self.resumed:
            shapes = jax.eval_shape(partial(begin, CompiledAsk, self.job, self.algorithm, self.sites))
            return self._with_versions(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes))
        return self._with_versions(begin(self._asks, self.job, self.algorithm, self.sites))

    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Run until `rows` more trace rows are written or the round `limit` is reached.

        Until the next call, nodes can return to the states that they had at this one.

        Args:
            progress: State of the run.
            limit: Number of the last round.
            rows: Number of trace rows to write.
        """
        self.versions[:] = self.committed[:] = np.asarray(progress.clients)
        progress, table = self.play(self._asks, progress, limit, rows)
        return self._with_versions(progress), table

    def _with_versions(self, progress: Progress) -> Progress:
        return progress._replace(clients=self.versions.copy())

    def _everyone(self, header, body):
        """Ask all clients, and ask those without an answer again, unless missing clients are skipped."""
        scalar = jax.ShapeDtypeStruct((), jnp.result_type(float))
        expected = (
            {"value": scalar, "gradient": self.job.start} if "gradient" in self.asked else dict.fromkeys(self.asked, scalar)
        )
        expected |= dict.fromkeys({*self.asked} & {"accuracy"}, scalar)
        waiting, answers = {client: info.node for client, info in self.nodes.items()}, {}
        while waiting:
            received = self.mailbox.send(dict.fromkeys(waiting.values(), (header, body)), f"measure_{self.mailbox.digest}")
            errors = {node: validate_reply(reply, self.job.start, expected) for node, reply in received.items()}
            self.mailbox.counts.update(error for error in errors.values() if error is not None)
            answers |= {client: received[node] for client, node in waiting.items() if errors.get(node, "missing") is None}
            waiting = {client: node for client, node in waiting.items() if client not in answers}
            if answers and self.job.faults is not None and self.job.faults.missing == "skip":
                self.mailbox.counts["evaluations by fewer clients"] += bool(waiting)
                break
            if waiting:
                time.sleep(RETRY_PAUSE)
        return answers
