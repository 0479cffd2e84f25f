"""Several requests of the server to one path of the SuperLink in one: a network with delay takes its time once."""

import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from flwr.proto.message_pb2 import ConfirmMessageReceivedResponse, PullObjectResponse, PushObjectResponse
from flwr.superlink.grid import HttpGrid
from starlette.requests import Request
from starlette.responses import Response

from turnout.engines.flower.asgi import replay_body

BATCH = "/v1/runtime/batch"
"""What comes before the name of a path whose requests come in batches."""

RESPONSES = {
    "PushObject": ("/push-object", PushObjectResponse),
    "PullObject": ("/pull-object", PullObjectResponse),
    "ConfirmMessageReceived": ("/confirm-message-received", ConfirmMessageReceivedResponse),
}

MOST_BYTES, MOST_REQUESTS = 2**22, 256
"""Bytes after which a batch, or the answer to one, is not continued, and most requests of a batch."""

LENGTH = struct.Struct(">I")


class Batch:
    """Takes the place of a protobuf message: serialised messages, each after its length.

    Args:
        parts: The messages.
    """

    def __init__(self, parts: Iterable[bytes] = ()):
        self.parts = [*parts]

    def SerializeToString(self, **_) -> bytes:
        return b"".join(piece for part in self.parts for piece in (LENGTH.pack(len(part)), part))

    def ParseFromString(self, content: bytes) -> None:
        at = 0
        while at < len(content):
            (length,) = LENGTH.unpack_from(content, at)
            at += LENGTH.size + length
            if at > len(content):
                raise ValueError("a batch ends within a message")
            self.parts.append(content[at - length : at])


class BatchGrid(HttpGrid):
    """A connection to a SuperLink that takes batches."""

    def call_some(self, name: str, requests: list[Any]) -> list[Any]:
        """Return the answers to the first of some requests, to one at least.

        Args:
            name: Name of Flower's call.
            requests: The requests.
        """
        path, response_type = RESPONSES[name]
        batch = Batch(request.SerializeToString() for request in requests[:MOST_REQUESTS])
        options = {"path": BATCH + path, "rpc_method": f"/flwr.proto.Runtime/{name}"}
        answers = self._runtime_client._unary_unary(request=batch, response_type=Batch, **options)
        return [response_type.FromString(part) for part in answers.parts]


def call_some(grid: HttpGrid, name: str, requests: list[Any]) -> list[Any]:
    """Return the answers to the first of some requests, to one at least, in a batch if the SuperLink takes batches.

    Args:
        grid: Connection to the SuperLink.
        name: Name of Flower's call.
        requests: The requests.
    """
    if isinstance(grid, BatchGrid):
        return grid.call_some(name, requests)
    return [getattr(grid._runtime_client, name)(request) for request in requests[:1]]


def call_all(grid: HttpGrid, name: str, requests: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each request with its answer; only the requests of one batch are in memory.

    Args:
        grid: Connection to the SuperLink.
        name: Name of Flower's call.
        requests: The requests.
    """
    waiting, left = [], iter(requests)
    while True:
        size = sum(request.ByteSize() for request in waiting)
        while size < MOST_BYTES and len(waiting) < MOST_REQUESTS and (more := [*islice(left, 1)]):
            waiting += more
            size += more[0].ByteSize()
        if not waiting:
            return
        answers = call_some(grid, name, waiting)
        yield from zip(waiting, answers, strict=False)
        del waiting[: len(answers)]


def batched(app):
    """Return the ASGI application `app`, a SuperLink, that also takes batches of requests.

    Requests are passed on one after another, until one fails, whose response is that to the batch, or until the responses are
    longer than `MOST_BYTES`. No other requests may come in between: nodes that ask for an object again and again would hold up
    the batch that brings it.
    """

    async def serve(scope, receive, send):
        if not scope.get("path", "").startswith(BATCH):
            await app(scope, receive, send)
            return
        path = scope["path"].replace(BATCH, "/v1/runtime", 1)
        inner, batch, answers, size = {**scope, "path": path, "raw_path": path.encode()}, Batch(), Batch(), 0
        batch.ParseFromString(await Request(scope, receive).body())
        for part in batch.parts:
            status, content = await response_of(app, inner, replay_body(part, receive))
            if status != 200:
                await Response(content, status, media_type="application/json")(scope, receive, send)
                return
            answers.parts.append(content)
            size += len(content)
            if size > MOST_BYTES:
                break
        await Response(answers.SerializeToString(), media_type="application/protobuf")(scope, receive, send)

    return serve


async def response_of(app, scope, receive) -> tuple[int, bytes]:
    """Return the status and the body of the response of `app` to a request.

    Args:
        app: The ASGI application.
        scope: Scope of the request.
        receive: ASGI's function to receive.
    """
    response = []

    async def collect(piece: dict) -> None:
        response.append(piece)

    await app(scope, receive, collect)
    return response[0]["status"], b"".join(piece.get("body", b"") for piece in response)
