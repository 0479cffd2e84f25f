"""Messages between the server and a hub: the requests to several clients as one, and their replies, each or their sum."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.core.messages import payload, split_each
from turnout.engines.flower.mailbox import Requests
from turnout.engines.request import LONGEST, Refused
from turnout.io.serialization import Buffer, decode, encode

HEADER_BYTES = 2**12
"""Most bytes of what a request or a reply of a hub says of one client, beside the arrays."""

COUNTS = ("queries", "missed")
"""The counts that come with each reply."""


@dataclass(frozen=True, eq=False)
class Whole:
    """The message to a cohort, of which each client is sent its part.

    Args:
        message: The message, whose `Each` parts are stacked over the places of the cohort.
        start: Initial parameters.
    """

    message: PyTree
    start: PyTree

    @cached_property
    def common(self) -> bytes:
        """The message in bytes where it is the same for all; hubs share this one object."""
        return encode(self.message, self.start)

    def at(self, places: list[int]) -> tuple[bytes, list[int]]:
        """Return the message to some places in bytes, and the numbers of its arrays that are stacked over these.

        Args:
            places: The places.
        """
        own, write = split_each(jax.tree.map(np.asarray, self.message))
        if not own:
            return self.common, []
        mark = object()
        marked = jax.tree.leaves(write(jax.tree.map(lambda _: mark, own)))
        stacked = write(jax.tree.map(lambda leaf: leaf[places], own))
        return encode(stacked, self.start), [k for k, leaf in enumerate(marked) if leaf is mark]


@dataclass(frozen=True, eq=False)
class Part:
    """The message to one client, as a place in that to the cohort; its length is the bytes of its arrays.

    Args:
        whole: The message to the cohort.
        place: The place.
    """

    whole: Whole
    place: int

    def __len__(self) -> int:
        own, write = split_each(self.whole.message)
        return payload(write(jax.tree.map(lambda leaf: leaf[self.place], own)))


@dataclass(frozen=True, eq=False)
class Received:
    """The message to the clients of a hub, as it came.

    Args:
        message: The message.
        each: Numbers of its arrays that are stacked over these clients.
        start: Initial parameters.
    """

    message: PyTree
    each: list[int]
    start: PyTree

    def at(self, places: list[int] | int) -> tuple[bytes, list[int]]:
        """Return the message to some places in bytes, or to one without the stack, and the numbers of its stacked arrays.

        Args:
            places: The places.
        """
        leaves, structure = jax.tree.flatten(self.message)
        own = [leaf[places] if k in self.each else leaf for k, leaf in enumerate(leaves)]
        return encode(jax.tree.unflatten(structure, own), self.start), self.each


@dataclass(frozen=True, eq=False)
class ReceivedPart:
    """The message to one client, as a place in that which a hub has received; its bytes are those of the message to a node.

    Args:
        whole: The message to the clients of the hub.
        place: The place.
    """

    whole: Received
    place: int

    def __bytes__(self) -> bytes:
        return self.whole.at(self.place)[0]


class Order(NamedTuple):
    """What the server asks of a hub.

    Args:
        requests: Header and body of the request to each client.
        seconds: Within which replies have to come.
        skips: Whether clients that are not connected are not asked.
    """

    requests: Requests
    seconds: float
    skips: bool


def packed_requests(requests: Requests, seconds: float, skips: bool) -> tuple[bytes, bytes]:
    """Return the requests to the clients of a hub as the header and the body of one message.

    What all their headers say is said once.

    Args:
        requests: Header and body of the request to each client; all bodies are one, or parts of one message.
        seconds: Within which replies have to come.
        skips: Whether clients that are not connected are not asked.
    """
    fields = {client: json.loads(header) for client, (header, _) in requests.items()}
    first, *others = fields.values()
    shared = {name: value for name, value in first.items() if all(name in one and one[name] == value for one in others)}
    own = {client: {name: one[name] for name in one if name not in shared} for client, one in fields.items()}
    bodies = [body for _, body in requests.values()]
    parts = isinstance(bodies[0], Part | ReceivedPart)
    body, each = bodies[0].whole.at([part.place for part in bodies]) if parts else (bodies[0], [])
    said = {"seconds": seconds, "skips": skips, "shared": shared, "own": own, "each": each}
    return json.dumps(said, separators=(",", ":")).encode(), body


def read_requests(header: bytes, body: Buffer, start: PyTree, clients: frozenset[int]) -> Order:
    """Return what a message of `packed_requests` asks; raise `Refused` where it is none, or not for clients of the hub.

    Args:
        header: Header of the message.
        body: Its body.
        start: Initial parameters.
        clients: The clients of the hub.
    """
    with valid_request():
        said = said_of(header, len(clients))
        own = {int(client): fields for client, fields in said["own"].items()}
        if not own or not own.keys() <= clients:
            raise ValueError("it is for clients of another hub")
        headers = [json.dumps(said["shared"] | fields).encode() for fields in own.values()]
        bodies = _bodies(bytes(body), said["each"], start, len(own))
        return Order(dict(zip(own, zip(headers, bodies, strict=True), strict=True)), float(said["seconds"]), bool(said["skips"]))


@contextmanager
def valid_request() -> Iterator[None]:
    """Raise `Refused` where a request to a hub cannot be read."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, UserError) as error:
        raise Refused(f"the request to this hub is not valid: {error}") from None


def said_of(header: bytes, clients: int) -> dict:
    """Return what a header says of a number of clients; `ValueError` where it is too long, or no JSON."""
    if len(header) > LONGEST + HEADER_BYTES * clients:
        raise ValueError("it is too long")
    return json.loads(header)


def _bodies(body: bytes, each: list[int], start: PyTree, count: int) -> list[bytes] | list[ReceivedPart]:
    """Return the message to each of `count` clients, given the numbers of the arrays that are stacked over them."""
    if not each:
        return [body] * count
    whole = Received(decode(body, start)[0], each, start)
    leaves = jax.tree.leaves(whole.message)
    if any(len(leaves[k]) != count for k in each):
        raise ValueError("it has not as many parts as clients")
    return [ReceivedPart(whole, place) for place in range(count)]


def packed_replies(replies: dict[int, Buffer], missing: dict[int, str]) -> bytes:
    """Return the replies of a hub's clients as one.

    Args:
        replies: The reply of each client that answered.
        missing: Why the reply of each other client was refused; "" where none came.
    """
    return encode([np.frombuffer(reply, np.uint8) for reply in replies.values()], None, _told([*replies], missing))


def packed_sum(total: PyTree, start: PyTree, counts: dict[int, dict[str, int]], missing: dict[int, str]) -> bytes:
    """Return the sum of the replies of a hub's clients; without any arrays where nobody answered.

    Args:
        total: The sum.
        start: Initial parameters.
        counts: The counts of each client that answered.
        missing: Why the reply of each other client was refused; "" where none came.
    """
    told = _told([*counts], missing) | {name: [each[name] for each in counts.values()] for name in COUNTS}
    return encode(total if counts else None, start, told)


def _told(clients: list[int], missing: dict[int, str]) -> dict:
    return {"clients": clients, "refused": {client: reason for client, reason in missing.items() if reason}}


class Answer(NamedTuple):
    """What a hub's reply says.

    Args:
        replies: The reply of each client that answered; without arrays where they are in the sum.
        refused: Why replies of other clients were refused.
    """

    replies: dict[int, Buffer]
    refused: dict[int, str]


def read_replies(reply: Buffer, asked: frozenset[int]) -> Answer:
    """Return what a reply of `packed_replies` says; `ValueError` where it is none, or answers for clients that were not asked.

    Args:
        reply: The reply.
        asked: The clients of this hub that were asked.
    """
    arrays, header = decoded(reply, None)
    clients, refused = _who(header, asked)
    if type(arrays) is not list or len(arrays) != len(clients) or any(_type(each) != (1, np.uint8) for each in arrays):
        raise ValueError("malformed")
    return Answer({client: array.tobytes() for client, array in zip(clients, arrays, strict=True)}, refused)


def read_sum(reply: Buffer, start: PyTree, asked: frozenset[int]) -> tuple[Answer, PyTree]:
    """Return what a reply of `packed_sum` says, and the sum; `ValueError` where it is none, or for clients that were not asked.

    Args:
        reply: The reply.
        start: Initial parameters.
        asked: The clients of this hub that were asked.
    """
    total, header = decoded(reply, start)
    clients, refused = _who(header, asked)
    counts = [header.get(name) for name in COUNTS]
    if any(type(each) is not list or len(each) != len(clients) for each in counts):
        raise ValueError("without its counts")
    if any(type(count) is not int or not 0 <= count < 2**31 for each in counts for count in each):
        raise ValueError("without its counts")
    told = (dict(zip(COUNTS, own, strict=True)) for own in zip(*counts, strict=True))
    return Answer({client: encode(None, None, own) for client, own in zip(clients, told, strict=True)}, refused), total


def decoded(reply: Buffer, start: PyTree) -> tuple[PyTree, dict]:
    """Return the arrays of a reply and what is told beside them; `ValueError` where it is none."""
    try:
        return decode(reply, start)
    except UserError:
        raise ValueError("malformed") from None


def _who(header: dict, asked: frozenset[int]) -> tuple[list[int], dict[int, str]]:
    """Return who answered, and why the replies of others were refused."""
    clients, refused = header.get("clients"), header.get("refused")
    if type(clients) is not list or any(type(client) is not int for client in clients) or type(refused) is not dict:
        raise ValueError("malformed")
    if len({*clients}) < len(clients):
        raise ValueError("with two replies of one client")
    if not {*clients} <= asked:
        raise ValueError("with replies of clients that it was not asked for")
    others = {str(client): client for client in asked - {*clients}}
    reasons = {others[name]: "".join(filter(str.isprintable, str(why))) for name, why in refused.items() if name in others}
    return clients, reasons


def _type(array: Any) -> tuple[int, Any]:
    return getattr(array, "ndim", -1), getattr(array, "dtype", None)
