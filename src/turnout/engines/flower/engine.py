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
from turnout.core.lazy_stack import leave
from turnout.engines.compiled import CompiledAsk
from turnout.engines.flower.chunks import HALVED
from turnout.engines.flower.client_app import Terms
from turnout.engines.flower.payload import enclosed, pack, unpack
from turnout.engines.flower.server_connection import replies
from turnout.engines.inputs import Job
from turnout.engines.messaging import MessageAsk, MessageEngine
from turnout.engines.state import Progress, begin
from turnout.io.serialization import Buffer, decode

POLL = 0.02
"""Seconds between two looks for replies."""


class Post:
    """Sends letters to nodes and collects the replies; `counts` says how many of these were refused, and why.

    `mark` is that of requests, which `meet` agrees on.
    """

    def __init__(self, grid: HttpGrid, deadline: float):
        self.grid, self.deadline, self.counts = grid, deadline, Counter()
        self.mark = ""

    def send(self, letters: dict[int, tuple[bytes, bytes]], kind: str) -> dict[int, Buffer]:
        """Send header and body to each node, by its id, and return the replies that came before the deadline, by node."""
        # The same body becomes the same object.
        bodies = {id(body): body for _, body in letters.values()}
        enclosures = {name: enclosed(body) for name, body in bodies.items()}
        messages = [
            Message(pack(enclosures[id(body)], header), node, f"query.{kind}") for node, (header, body) in letters.items()
        ]
        came, end = {}, time.monotonic() + self.deadline
        try:
            sent = dict(zip(self.grid.push_messages(messages), letters, strict=True))
        except HALVED:
            self.counts["not asked, since the SuperLink was gone"] += len(letters)
            return came
        del messages, enclosures
        while sent:
            for message in replies(self.grid, set(sent)):
                node = sent.pop(message.metadata.reply_to_message_id, None)
                body = self._body(message, node)
                if body is not None:
                    came[node] = body
            if time.monotonic() >= end:
                break
            if sent:
                time.sleep(POLL)
        self.counts["late or missing"] += len(sent)
        return came

    def rest(self) -> None:
        """Wait a little before somebody is asked again, who may be about to come back."""
        time.sleep(10 * POLL)

    def _body(self, message: Message, node: int | None) -> Buffer | None:
        if node is None:
            self.counts["not asked for"] += 1
        elif message.has_error():
            self.counts[f"error {message.error.code}: {message.error.reason}"] += 1
        else:
            try:
                return unpack(message.content)[1]
            except ValueError:
                self.counts["not a letter"] += 1
        return None


class Member(NamedTuple):
    """The id of a client's node, and how many rows the client has."""

    node: int
    rows: int


def meet(post: Post, terms: Terms, clients: int, patience: float) -> dict[int, Member]:
    """Say hello until every one of `clients` clients is there, for at most `patience` seconds; return who they are.

    A node that does not agree on the terms, or is none of the clients, is refused, and greeted again while somebody is missing.
    """
    known: dict[int, Member] = {}
    refused: dict[int, str] = {}
    end = time.monotonic() + patience
    while len(known) < clients:
        new = set(post.grid.get_node_ids()) - {member.node for member in known.values()}
        for node, letter in post.send(dict.fromkeys(new, (b"", b"")), "hello").items():
            client, rows, why = heard(letter[:], terms, clients)
            if why is None and client in known:
                raise UserError(f"two nodes say that they are client {client}: give each node a client of its own")
            if why is None:
                known[client] = Member(node, rows)
            elif refused.get(node) != why:
                refused[node] = why
                post.counts[f"refused: {why}"] += 1
                log(WARNING, "refused node %d: %s", node, why)
        if len(known) < clients and time.monotonic() > end:
            missing = min({*range(clients)} - {*known})
            also = "".join(f"; refused was: {why}" for why in refused.values())
            raise UserError(
                f"{clients - len(known)} clients did not come within {patience:g} s, the first being client {missing}{also}"
            )
        if len(known) < clients:
            post.rest()
    post.mark = terms.mark
    return known


def heard(letter: bytes, terms: Terms, clients: int) -> tuple[int, int, str | None]:
    """Return which client a node says that it is, how many rows it has, and why it is refused, or None."""
    try:
        told = json.loads(letter)
        client, rows, differ = told["client"], told["rows"], terms.differ(told)
    except (ValueError, LookupError, TypeError, AttributeError):
        return -1, 0, "it did not say who it is"
    if type(client) is not int or not 0 <= client < clients:
        return -1, 0, f"a node says that it is client {client}, but the clients are 0 to {clients - 1}"
    if type(rows) is not int or rows < 1:
        return client, 0, f"client {client} says that it has {rows} rows, but every client has at least one"
    if differ:
        remedy = "give the server and all nodes the same version of turnout and the same configuration"
        return client, rows, f"client {client} does not agree on {', '.join(differ)}: {remedy}"
    return client, rows, None


class FlowerAsk(MessageAsk):
    """Answers `ask` by messages to nodes."""

    def __init__(self, post: Post, members: dict[int, Member], *arguments):
        super().__init__(*arguments)
        self.post, self.members = post, members

    def connected(self):
        there = set(self.post.grid.get_node_ids())
        return jnp.asarray([self.members[i].node in there for i in range(len(self.members))])

    def _exchange(self, requests, expected, losses):
        again, waiting, arrived = np.zeros_like(losses), requests, {}
        while waiting:
            came = self.post.send({self.members[one.number].node: one[2:] for one in waiting}, f"ask_{self.post.mark}")
            for request in waiting:
                reply = came.get(self.members[request.number].node)
                if reply is not None and self._sound(reply, expected):
                    arrived[request.place] = reply
            waiting = [request for request in waiting if request.place not in arrived]
            if not waiting or self.job.faults is None or not self.job.faults.repeats:
                break
            again[[request.place for request in waiting]] += 1
            self.post.rest()
        return arrived, again

    def _sound(self, reply: Buffer, expected: PyTree) -> bool:
        why = unsound(reply, self.job.start, expected, ("queries", "missed"))
        if why is not None:
            self.post.counts[why] += 1
        return why is None


def unsound(reply: Buffer, start: PyTree, expected: PyTree, counts: tuple[str, ...] = ()) -> str | None:
    """Return why a reply is not what it should be, in structure, shapes and types, finite, and with its counts; None if it is."""
    try:
        tree, header = decode(reply, start)
    except UserError:
        return "not a letter"
    if not all(type(many := header.get(name)) is int and 0 <= many < 2**31 for name in counts):
        return "without its counts"
    wanted, structure = jax.tree.flatten(expected)
    leaves, found = jax.tree.flatten(tree)
    if found != structure or [(leaf.shape, leaf.dtype) for leaf in leaves] != [(leaf.shape, leaf.dtype) for leaf in wanted]:
        return "of another shape or type"
    # The least and the largest entry tell, without a copy of what may be large.
    finite = all(np.isfinite([np.min(leaf), np.max(leaf)]).all() for leaf in leaves if leaf.size)
    for leaf in leaves:
        leave(leaf)
    return None if finite else "not finite"


class Flower(MessageEngine):
    """Plays rounds of one algorithm with the nodes of a federation: the same run as `Compiled`'s, as long as no reply is lost."""

    def __init__(
        self, post: Post, members: dict[int, Member], resumed: bool, job: Job, algorithm, metrics: tuple[str, ...], every: int
    ):
        super().__init__(job, algorithm, metrics, every)
        self.post, self.members = post, members
        self.resumed, self.kept = resumed, self.versions.copy()
        self._asks = partial(FlowerAsk, post, members, self.versions, self.kept, self.sums)

    def begin(self) -> Progress:
        """Return the state before the first round; of a client it has the version of the state in use.

        Of a run that is `resumed` only the shapes are right, since nobody is to be asked for the start again.
        """
        if self.resumed:
            shapes = jax.eval_shape(partial(begin, CompiledAsk, self.job, self.algorithm, self.sites))
            return self._with_versions(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes))
        return self._with_versions(begin(self._asks, self.job, self.algorithm, self.sites))

    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play on until `rows` more trace rows are written or the round `limit` is reached.

        Until it is called again, nodes can go back to the states that they had when it was called.
        """
        self.versions[:] = self.kept[:] = np.asarray(progress.clients)
        progress, table = self.play(self._asks, progress, limit, rows)
        return self._with_versions(progress), table

    def _with_versions(self, progress: Progress) -> Progress:
        return progress._replace(clients=self.versions.copy())

    def _everyone(self, header, body):
        """Ask again whoever does not answer, unless missing clients are skipped."""
        one = jax.ShapeDtypeStruct((), jnp.result_type(float))
        expected = {"value": one, "gradient": self.job.start} if "gradient" in self.asked else dict.fromkeys(self.asked, one)
        expected |= dict.fromkeys({*self.asked} & {"accuracy"}, one)
        waiting, told = {client: member.node for client, member in self.members.items()}, {}
        while waiting:
            came = self.post.send(dict.fromkeys(waiting.values(), (header, body)), f"measure_{self.post.mark}")
            whys = {node: unsound(reply, self.job.start, expected) for node, reply in came.items()}
            self.post.counts.update(why for why in whys.values() if why is not None)
            told |= {client: came[node] for client, node in waiting.items() if whys.get(node, "missing") is None}
            waiting = {client: node for client, node in waiting.items() if client not in told}
            if told and self.job.faults is not None and self.job.faults.missing == "skip":
                self.post.counts["evaluations by fewer clients"] += bool(waiting)
                break
            if waiting:
                self.post.rest()
        return told
