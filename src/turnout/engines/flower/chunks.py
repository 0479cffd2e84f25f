"""Transfer of Flower messages object by object, so that a large message is never in memory as a whole."""

import json
import time
from collections.abc import Callable
from mmap import ACCESS_READ, mmap
from secrets import token_bytes
from tempfile import TemporaryFile
from typing import cast

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.app.message import make_message
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import (
    InflatableObject,
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
"""Seconds to wait for an object of a message after the object before it; later its sender was killed."""

INTERRUPTED = (ObjectPullError, ObjectPushError)
"""The errors of a transfer whose other end was killed."""

MALFORMED = (ValueError, KeyError, TypeError, DecodeError)
"""The errors of reading a message that Flower did not make."""

Pull = Callable[[str], bytes]
"""Fetches the object with a given id."""

Push = Callable[[str, bytes], None]
"""Sends the object with a given id."""


def push_one_by_one(objects: dict[str, InflatableObject], push_object_fn: Push, *, object_ids_to_push: set[str]) -> None:
    """Send the wanted objects of messages one at a time. This replaces Flower's `push_objects`.

    `objects` lists the parts of an object before the object, and the order is reversed here: a receiver that has the last object
    has them all.

    Args:
        objects: Objects by id.
        push_object_fn: Sends one object.
        object_ids_to_push: Ids of the objects that the SuperLink lacks.
    """
    for name in reversed(list(objects)):
        if name in object_ids_to_push:
            push_object_fn(name, objects[name].deflate())


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


def fetch_message(head: Message, tree: ObjectTree, pull: Pull) -> Message:
    """Return the whole message of which `head` is all but the content; `ObjectPullError` if an object does not arrive.

    Args:
        head: The message without its content.
        tree: Tree of the objects of the message.
        pull: Fetches one object by its id.
    """
    if head.has_error():
        return head
    # The first of several objects repeats the head.
    content = _fetch(tree.children[0] if tree.children else tree, pull)
    if isinstance(content, ConfigRecord):
        content = RecordDict({NAME: content})
    return make_message(head.metadata, cast(RecordDict, content))


def _fetch(tree: ObjectTree, pull: Pull) -> InflatableObject:
    """Return an object with all its parts; the data of arrays stay in a file."""
    content = _pull_with_retries(pull, tree.object_id)
    kind, parts, _ = get_object_head_values_from_object_content(content)
    if kind == Array.__name__:
        return _array_on_disk(json.loads(get_object_body(content, Array)), parts, pull)
    children = {part.object_id: _fetch(part, pull) for part in tree.children}
    if kind == ArrayRecord.__name__:
        # Flower's own constructor reads the data into memory.
        record = ArrayRecord()
        for name, part in json.loads(get_object_body(content, ArrayRecord)).items():
            record[name] = cast(Array, children[part])
        return record
    return inflatable_class_registry[kind].inflate(content, children)


def _array_on_disk(fields: dict, chunks: list[str], pull: Pull) -> Array:
    """Return the array whose data are `chunks`, in the order of `arraychunk_ids`, which may repeat some."""
    array = Array(fields["dtype"], tuple(fields["shape"]), fields["stype"], b"")
    with TemporaryFile() as file:
        for k in fields["arraychunk_ids"]:
            content = _pull_with_retries(pull, chunks[k])
            file.write(memoryview(content)[content.index(b"\0") + 1 :])
        if file.tell():
            file.flush()
            array.data = cast(bytes, mmap(file.fileno(), 0, access=ACCESS_READ))
    return array


def _pull_with_retries(pull: Pull, name: str) -> bytes:
    """Fetch an object, with retries while it is not there yet."""
    pause, end = 0.02, time.monotonic() + OBJECT_TIMEOUT
    while True:
        try:
            return pull(name)
        except ObjectUnavailableError:
            if time.monotonic() > end:
                raise ObjectPullError(name, "it did not come") from None
        time.sleep(pause)
        pause = min(2 * pause, 1.0)
