"""Several requests in one: the same answers, in the order of the requests, and no more of them in memory than a few MiB."""

import asyncio
import struct
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from flwr.proto.message_pb2 import PullObjectRequest, PullObjectResponse

from turnout.engines.flower.batches import BATCH, MOST_BYTES, MOST_REQUESTS, Batch, BatchGrid, batched, call_all


@given(st.lists(st.binary(max_size=20)))
def test_a_batch_survives_the_wire(parts):
    read = Batch()
    read.ParseFromString(Batch(parts).SerializeToString())
    assert read.parts == parts


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1), st.integers(1, 4))
def test_a_batch_that_was_cut_off_is_an_error(parts, cut):
    with pytest.raises((ValueError, struct.error)):
        Batch().ParseFromString(Batch(parts).SerializeToString()[:-cut])


async def store(scope, receive, send):
    """A SuperLink whose object "k" has k bytes; it has none called "none"."""
    assert scope["path"] == "/v1/runtime/pull-object"
    name = PullObjectRequest.FromString((await receive())["body"]).object_id
    status = 404 if name == "none" else 200
    body = b'"gone"' if name == "none" else PullObjectResponse(object_content=bytes(int(name))).SerializeToString()
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": body})


def answered(names: list[str]) -> tuple[int, bytes]:
    """Return the status and the body of the response to a batch."""
    body = Batch(PullObjectRequest(object_id=name).SerializeToString() for name in names).SerializeToString()
    response = []

    async def receive():
        return {"type": "http.request", "body": body}

    async def send(part):
        response.append(part)

    scope = {"type": "http", "method": "POST", "path": f"{BATCH}/pull-object", "headers": []}
    asyncio.run(batched(store)(scope, receive, send))
    return response[0]["status"], response[1]["body"]


class Grid(BatchGrid):
    """A connection to that SuperLink."""

    def __init__(self):
        self.batches = []

    @property
    def _runtime_client(self):
        return SimpleNamespace(_unary_unary=self._ask)

    def _ask(self, request, response_type, **_):
        names = [PullObjectRequest.FromString(part).object_id for part in request.parts]
        self.batches.append(names)
        answers = response_type()
        answers.ParseFromString(answered(names)[1])
        return answers


@given(st.lists(st.integers(0, 100), max_size=30))
def test_every_request_has_its_answer(sizes):
    grid = Grid()
    requests = (PullObjectRequest(object_id=str(size)) for size in sizes)
    answers = [(request.object_id, len(answer.object_content)) for request, answer in call_all(grid, "PullObject", requests)]
    assert answers == [(str(size), size) for size in sizes] and len(grid.batches) == bool(sizes)


def test_what_is_longer_than_a_batch_takes_several():
    sizes, grid = [MOST_BYTES // 2] * 5 + [1] * (2 * MOST_REQUESTS), Grid()
    requests = (PullObjectRequest(object_id=str(size)) for size in sizes)
    assert [len(answer.object_content) for _, answer in call_all(grid, "PullObject", requests)] == sizes
    assert max(map(len, grid.batches)) == MOST_REQUESTS and len(answered(["4000000"] * 9)[1]) < 2 * MOST_BYTES


def test_an_error_is_the_response_to_the_batch():
    assert answered(["3", "none", "4"]) == (404, b'"gone"')
