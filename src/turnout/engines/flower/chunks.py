"""Flower's messages, part by part, so that a large one is never in memory as a whole."""

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

PATIENCE = 15.0
"""Seconds that a part of a message may come after the part before it; then whoever was to send it was killed."""

HALVED = (ObjectPullError, ObjectPushError)
"""What becomes of a message while whose parts are sent somebody is killed."""

MALFORMED = (ValueError, KeyError, TypeError, DecodeError)
"""What is met in a message that is none of Flower's."""

Pull = Callable[[str], bytes]
"""Fetches the part with a given id."""

Push = Callable[[str, bytes], None]
"""Sends the part with a given id."""


def push_parts(objects: dict[str, InflatableObject], push_object_fn: Push, *, object_ids_to_push: set[str]) -> None:
    """Send those parts of messages that are wanted, in the place of Flower's `push_objects`, but one at a time.

    `objects` has what a part holds before it, and so the whole goes first: who has the last part may say that he has got all.
    """
    for name in reversed(list(objects)):
        if name in object_ids_to_push:
            push_object_fn(name, objects[name].deflate())


class Slim(Message):
    """A small letter as one part, without the two that Flower would put around it.

    They would repeat what the announcement of the message says; that no two messages are the same is left to a random number.
    """

    def __init__(self, message: Message, letter: ConfigRecord):
        self.__dict__.update(vars(message))
        self.part = ConfigRecord({**letter, "number": token_bytes(16)}).deflate()

    @property
    def children(self):
        return None

    def deflate(self):
        return self.part


def slim(message: Message) -> Message:
    """Return a message in one part if it holds a small letter and nothing else, and otherwise as it is."""
    letter = message.content.get(NAME) if message.has_content() and len(message.content) == 1 else None
    return Slim(message, letter) if isinstance(letter, ConfigRecord) else message


def fetched(head: Message, tree: ObjectTree, pull: Pull) -> Message:
    """Return the message of which `head` is all but the content; `ObjectPullError` where a part of that does not come."""
    if head.has_error():
        return head
    # What the first of several parts would say, the head says already.
    content = _fetch(tree.children[0] if tree.children else tree, pull)
    if isinstance(content, ConfigRecord):
        content = RecordDict({NAME: content})
    return make_message(head.metadata, cast(RecordDict, content))


def _fetch(tree: ObjectTree, pull: Pull) -> InflatableObject:
    """Return an object with all that it holds; the data of an array stay in a file."""
    content = _patiently(pull, tree.object_id)
    kind, pieces, _ = get_object_head_values_from_object_content(content)
    if kind == Array.__name__:
        return _filed(json.loads(get_object_body(content, Array)), pieces, pull)
    children = {part.object_id: _fetch(part, pull) for part in tree.children}
    if kind == ArrayRecord.__name__:
        # Made by Flower, it would want the data in memory.
        record = ArrayRecord()
        for name, part in json.loads(get_object_body(content, ArrayRecord)).items():
            record[name] = cast(Array, children[part])
        return record
    return inflatable_class_registry[kind].inflate(content, children)


def _filed(told: dict, pieces: list[str], pull: Pull) -> Array:
    """Return the array whose data are `pieces`, in an order that is told, and may repeat some."""
    array = Array(told["dtype"], tuple(told["shape"]), told["stype"], b"")
    with TemporaryFile() as file:
        for k in told["arraychunk_ids"]:
            content = _patiently(pull, pieces[k])
            file.write(memoryview(content)[content.index(b"\0") + 1 :])
        if file.tell():
            file.flush()
            array.data = cast(bytes, mmap(file.fileno(), 0, access=ACCESS_READ))
    return array


def _patiently(pull: Pull, name: str) -> bytes:
    """Fetch a part, again and again while it is not there yet."""
    pause, end = 0.02, time.monotonic() + PATIENCE
    while True:
        try:
            return pull(name)
        except ObjectUnavailableError:
            if time.monotonic() > end:
                raise ObjectPullError(name, "it did not come") from None
        time.sleep(pause)
        pause = min(2 * pause, 1.0)
