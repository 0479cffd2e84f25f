"""Transfer of Flower messages object by object, so that a large message is never in memory as a whole."""

import json
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import zip_longest
from mmap import ACCESS_READ, mmap
from secrets import token_bytes
from tempfile import TemporaryFile
from typing import cast

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.app.message import make_message
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import (
    InflatableObject,
    UnexpectedObjectContentError,
    get_object_body,
    get_object_head_values_from_object_content,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    ObjectUnavailableError,
    inflatable_class_registry,
)
from google.protobuf.message import DecodeError

from turnout.engines.flower.payload import NAME

OBJECT_TIMEOUT = 15.0
"""Seconds to wait for an object of a message after the last object that came; later its sender was killed."""

INTERRUPTED = (ObjectPullError, ObjectPushError)
"""The errors of a transfer whose other end was killed."""

MALFORMED = (
    ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError, NotImplementedError, DecodeError,
    UnexpectedObjectContentError,
)  # fmt: skip
"""The errors of reading a message that Flower did not make."""

Pull = Callable[[str], bytes]
"""Fetches the object with a given id."""

Pulled = Callable[[str], Generator[bool, None, bytes]]
"""Fetches the object with a given id, in steps."""

Latest = Callable[[], float]
"""Returns a time of the monotonic clock."""


def in_order(*trees: ObjectTree) -> list[str]:
    """Return the ids of the objects of messages in the order in which receivers want them, see `fetch_in_steps`, in turn.

    Objects are sent in this order, so that a receiver waits for one at a time, and not for its first until the last is there.

    Args:
        *trees: Trees of the objects of the messages.
    """
    wanted = zip_longest(*map(_level_by_level, trees))
    return [*dict.fromkeys(name for names in wanted for name in names if name is not None)]


def _level_by_level(tree: ObjectTree) -> Iterator[str]:
    """Yield the ids of the objects of a message."""
    level = [tree]
    while level:
        yield from (part.object_id for part in level)
        level = [child for part in level for child in part.children]


class SingleObjectMessage(Message):
    """A small message as one object. Flower would send three.

    The other two repeat what the announcement of the message says. A random number makes each message unique.

    Args:
        message: The message.
        content: Its content in bytes.
    """

    def __init__(self, message: Message, content: ConfigRecord):
        self.__dict__.update(vars(message))
        self.deflated = ConfigRecord({**content, "number": token_bytes(16)}).deflate()

    @property
    def children(self):
        return None

    def deflate(self):
        return self.deflated


def as_single_object(message: Message) -> Message:
    """Return the message as one object if its content is small, and unchanged otherwise."""
    content = message.content.get(NAME) if message.has_content() and len(message.content) == 1 else None
    return SingleObjectMessage(message, content) if isinstance(content, ConfigRecord) else message


ENVELOPE, PER_OBJECT = 2**16, 2**10
"""Bytes that a message may have beside its body, and that each of its objects counts for beside its content."""

TOO_LONG = "it is longer than what was asked for"


class Limited:
    """Fetches objects until they have more than `limit` bytes together, then raises `ValueError`.

    Args:
        pull: Fetches one object by its id.
        limit: Bytes of the message's body.
    """

    def __init__(self, pull: Pull, limit: int):
        # A chunk of 5 MiB counts for 1.1 KiB more.
        self.pull, self.left = pull, limit + limit // 1000 + ENVELOPE

    def __call__(self, name: str) -> bytes:
        content = self.pull(name)
        self.left -= len(content) + PER_OBJECT
        if self.left < 0:
            raise ValueError(TOO_LONG)
        return content


def fetch_message(head: Message, tree: ObjectTree, pull: Pull) -> Message:
    """Return the whole message of which `head` is all but the content; `ObjectPullError` if an object does not arrive.

    Args:
        head: The message without its content.
        tree: Tree of the objects of the message.
        pull: Fetches one object by its id.
    """
    steps, pause = fetch_in_steps(head, tree, pull), 0.02
    while True:
        try:
            arrived = next(steps)
        except StopIteration as end:
            return end.value
        if not arrived:
            time.sleep(pause)
        pause = 0.02 if arrived else min(2 * pause, 1.0)


def fetch_in_steps(head: Message, tree: ObjectTree, pull: Pull, latest: Latest = lambda: 0.0) -> Generator[bool, None, Message]:
    """Do the same as `fetch_message` in steps of one request each, and yield whether the object arrived.

    Args:
        head: The message without its content.
        tree: Tree of the objects of the message.
        pull: Fetches one object by its id.
        latest: Returns when an object of any message came last: as long as some come, the others wait for their turn.
    """
    pulled = partial(_pull_with_retries, pull, latest)
    if head.has_error():
        return head
    # The first of several objects repeats the head.
    content = yield from _fetch(tree.children[0] if tree.children else tree, pulled)
    if isinstance(content, ConfigRecord):
        content = RecordDict({NAME: content})
    if not isinstance(content, RecordDict):
        raise ValueError("the message has no content of records")
    return make_message(head.metadata, content)


def _fetch(tree: ObjectTree, pulled: Pulled) -> Generator[bool, None, InflatableObject]:
    """Return an object with all its parts; the data of arrays stay in a file."""
    content = yield from pulled(tree.object_id)
    kind, parts, _ = get_object_head_values_from_object_content(content)
    if kind == Array.__name__:
        return (yield from _array_on_disk(json.loads(get_object_body(content, Array)), parts, pulled))
    children = {}
    for part in tree.children:
        children[part.object_id] = yield from _fetch(part, pulled)
    if kind == ArrayRecord.__name__:
        # Flower's own constructor reads the data into memory.
        record = ArrayRecord()
        for name, part in json.loads(get_object_body(content, ArrayRecord)).items():
            record[name] = cast(Array, children[part])
        return record
    return inflatable_class_registry[kind].inflate(content, children)


def _array_on_disk(fields: dict, chunks: list[str], pulled: Pulled) -> Generator[bool, None, Array]:
    """Return the array whose data are `chunks`, in the order of `arraychunk_ids`, which may repeat some."""
    array = Array(fields["dtype"], tuple(fields["shape"]), fields["stype"], b"")
    with TemporaryFile() as file:
        for k in fields["arraychunk_ids"]:
            content = yield from pulled(chunks[k])
            file.write(memoryview(content)[content.index(b"\0") + 1 :])
        if file.tell():
            file.flush()
            array.data = cast(bytes, mmap(file.fileno(), 0, access=ACCESS_READ))
    return array


def _pull_with_retries(pull: Pull, latest: Latest, name: str) -> Generator[bool, None, bytes]:
    """Fetch an object, with retries while it is not there yet."""
    began = time.monotonic()
    while True:
        try:
            content = pull(name)
        except ObjectUnavailableError:
            if time.monotonic() > max(began, latest()) + OBJECT_TIMEOUT:
                raise ObjectPullError(name, "it did not come") from None
            yield False
        else:
            yield True
            return content
