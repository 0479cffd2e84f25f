"""What a reply may make the server fetch: as many bytes as were asked for, and nothing that ends the server."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from flwr.app import Message
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectUnavailableError
from flwr.supercore.task_identity import TaskIdentity

from turnout.engines.flower import chunks
from turnout.engines.flower.chunks import MALFORMED, TOO_LONG, Limited, as_single_object, fetch_in_steps, fetch_message, in_order
from turnout.engines.flower.payload import SMALL, pack, pack_body, unpack

SIZES = [0, 80, SMALL, SMALL + 1, 13_000_000]


def sent(body: bytes):
    """Return a message, its tree and its objects by id."""
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    message = as_single_object(Message(pack(pack_body(body)), 7, "query.ask"))
    return message, get_object_tree(message), {name: part.deflate() for name, part in get_all_nested_objects(message).items()}


def numbers(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


@pytest.mark.parametrize("size", SIZES)
def test_a_reply_of_the_size_that_was_asked_for_arrives(size):
    message, tree, objects = sent(numbers(size))
    fetched = fetch_message(message, tree, Limited(objects.__getitem__, size))
    assert unpack(fetched.content)[1][:] == numbers(size)


@pytest.mark.parametrize("size", SIZES)
def test_objects_are_sent_in_the_order_in_which_they_are_fetched(size):
    """So a receiver waits for one object at a time, however long the message takes."""
    message, tree, objects = sent(numbers(size))
    fetched = []
    fetch_message(message, tree, lambda name: fetched.append(name) or objects[name])
    assert in_order(tree) == [*({tree.object_id} - {*fetched}), *fetched]
    assert in_order(tree, tree) == in_order(tree)


def test_objects_of_several_messages_are_sent_in_turn():
    trees = [sent(numbers(size))[1] for size in (13_000_000, 12_000_000)]
    first, second = map(in_order, trees)
    both = in_order(*trees)
    assert [name for name in both if name in first] == first and [name for name in both if name in second] == second
    assert [name in first for name in both[-6:]] == 3 * [True, False]


@pytest.mark.parametrize("size", [100_000, SMALL + 1, 13_000_000])
def test_a_longer_reply_is_not_fetched_to_its_end(size):
    message, tree, objects = sent(numbers(size))
    with pytest.raises(ValueError, match=TOO_LONG):
        fetch_message(message, tree, Limited(objects.__getitem__, size // 4))


def test_a_chunk_that_is_to_be_fetched_again_and_again_does_not_fill_the_disk():
    message, tree, objects = sent(numbers(5 * 2**20))
    (name,) = (name for name, content in objects.items() if content.startswith(b"Array "))
    head, body = objects[name].split(b"\0", 1)
    objects[name] = head + b"\0" + json.dumps(json.loads(body) | {"arraychunk_ids": [0] * 1000}).encode()
    fetched = []

    def pull(name):
        fetched.append(len(objects[name]))
        return objects[name]

    with pytest.raises(ValueError, match=TOO_LONG):
        fetch_message(message, tree, Limited(pull, 80))
    assert sum(fetched) <= 2 * 5 * 2**20 + chunks.ENVELOPE


def test_many_small_objects_count():
    pulled = Limited(lambda name: b"", 1000)
    with pytest.raises(ValueError, match=TOO_LONG):
        for _ in range(1000):
            pulled("empty")


def test_a_transfer_waits_for_no_object(monkeypatch):
    """So that other replies are fetched meanwhile."""
    message, tree, objects = sent(numbers(5 * 2**20))
    present: dict[str, bytes] = {}

    def pull(name):
        if name not in present:
            raise ObjectUnavailableError(name)
        return present[name]

    steps = fetch_in_steps(message, tree, pull)
    assert [next(steps) for _ in range(3)] == [False] * 3
    present.update(objects)
    assert next(steps)
    present.clear()
    assert not next(steps)
    monkeypatch.setattr(chunks.time, "monotonic", lambda: np.inf)
    with pytest.raises(ObjectPullError, match="it did not come"):
        next(steps)


def test_an_object_is_waited_for_as_long_as_others_come(monkeypatch):
    """A SuperLink that is busy with a hundred replies takes long for each."""
    message, tree, _ = sent(numbers(80))
    now = latest = 0.0

    def pull(name):
        raise ObjectUnavailableError(name)

    monkeypatch.setattr(chunks.time, "monotonic", lambda: now)
    steps = fetch_in_steps(message, tree, pull, lambda: latest)
    for _ in range(10):
        assert not next(steps)
        now = latest = now + 0.9 * chunks.OBJECT_TIMEOUT
    now += 1.1 * chunks.OBJECT_TIMEOUT
    with pytest.raises(ObjectPullError, match="it did not come"):
        next(steps)


OBJECTS = sent(numbers(SMALL + 1))


@given(st.data())
def test_no_reply_ends_the_server(data):
    """Objects of a message with some bytes replaced, or fields of an array."""
    message, tree, objects = OBJECTS
    name = data.draw(st.sampled_from(sorted(objects)))
    content = bytearray(objects[name])
    begin = data.draw(st.integers(0, min(len(content), 400)))
    content[begin : begin + data.draw(st.integers(0, 50))] = data.draw(st.binary(max_size=50) | st.just(b"[" * 5000))
    check(message, tree, objects | {name: bytes(content)})


FIELDS = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3), lambda part: st.lists(part))


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(["dtype", "shape", "stype", "arraychunk_ids"]), FIELDS))
def test_no_array_ends_the_server(fields):
    message, tree, objects = OBJECTS
    (name,) = (name for name, content in objects.items() if content.startswith(b"Array "))
    head, body = objects[name].split(b"\0", 1)
    check(message, tree, objects | {name: head + b"\0" + json.dumps(json.loads(body) | fields).encode()})


def check(message, tree, objects):
    try:
        fetched = fetch_message(message, tree, Limited(objects.__getitem__, 2 * SMALL))
    except (ObjectPullError, *MALFORMED):
        return
    try:
        body = unpack(fetched.content)[1]
    except ValueError:
        return
    assert len(body) <= 2 * SMALL
