"""Flower's messages, part by part, so that a large one is never in memory as a whole."""

import json
import time
from collections.abc import Callable
from mmap import ACCESS_READ, mmap
from tempfile import TemporaryFile
from typing import cast

from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.app.message import make_message
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import (
    InflatableObject,
    get_object_body,
    get_object_head_values_from_object_content,
)
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectUnavailableError, inflatable_class_registry

PATIENCE = 15.0
"""Seconds that a part of a message may come after the part before it; then whoever was to send it was killed."""

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


def fetched(head: Message, tree: ObjectTree, pull: Pull) -> Message:
    """Return the message of which `head` is all but the content; `ObjectPullError` where a part of that does not come."""
    # What the first part would say, the head says already.
    return make_message(head.metadata, cast(RecordDict, _fetch(tree.children[0], pull))) if tree.children else head


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
