"""Long polling: a request for messages waits at the SuperLink until there are some, so that nobody asks again and again."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.runtime_pb2 import PushAppMessagesRequest
from google.protobuf.message import DecodeError

from turnout.engines.flower.turns import Turns

PUSHES = {"/v1/runtime/push-messages": "server", "/v1/fleet/push-messages": "nodes"}
PULLS = {"/v1/runtime/pull-messages": "server", "/v1/fleet/pull-messages": "nodes"}

MESSAGE_PATHS = ("/v1/runtime/", "/v1/fleet/")
"""The paths of the server and of the nodes."""

MAX_WAIT = {"server": 1.0, "nodes": 20.0}
"""The longest time in seconds that a request for messages waits: a server has a deadline, and nodes, which may be many, give up
after 30."""

HEARTBEAT_PATH = "/v1/fleet/send-node-heartbeat"
"""The path of a node's heartbeats."""

REPLY_PATH = "/v1/fleet/push-object"
"""The path of the parts of a node's reply."""

NOTHING = [{"type": "http.response.start", "status": 200, "headers": []}, {"type": "http.response.body", "body": b""}]
"""The response to a node for which there are no messages."""

GONE = [{"type": "http.response.start", "status": 499, "headers": []}, {"type": "http.response.body", "body": b""}]
"""The response to a request whose sender has closed the connection."""

TRIES, PAUSE = 5, 0.5
"""How often a failing request is tried, and the seconds in between."""


class Arrivals:
    """Who waits for messages, the server or a node by its id, and for whom the other side has announced some.

    Attributes:
        waiting: Futures of those who wait.
        addressed: For whom there are announcements since the other side last waited.
        without: Nodes for which there are no messages: the SuperLink had none, and none was announced since.
    """

    def __init__(self):
        self.waiting: dict[str | int, set[asyncio.Future]] = {}
        self.addressed: set[str | int] = set()
        self.without: set[str | int] = set()

    @contextmanager
    def awaited(self, receiver: str | int) -> Iterator[asyncio.Future]:
        """Yield a future that is done once the messages for `receiver` have been sent."""
        arrived = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(receiver, set()).add(arrived)
        try:
            yield arrived
        finally:
            self.waiting[receiver].discard(arrived)
            if not self.waiting[receiver]:
                del self.waiting[receiver]

    def pushed(self, side: str, body: bytes) -> None:
        """Record that `side` has announced messages, whose objects follow.

        Args:
            side: Who sends them, "server" or "nodes".
            body: The announcement.
        """
        receivers = addressees(body) if side == "server" else {"server"}
        self.addressed |= receivers
        self.without -= receivers

    def pulls(self, side: str) -> None:
        """Wake those for whom `side`, which waits from now on, has sent messages before."""
        awake = {receiver for receiver in self.addressed if (receiver == "server") == (side == "nodes")}
        self.addressed -= awake
        for receiver in awake:
            for arrived in self.waiting.get(receiver, ()):
                if not arrived.done():
                    arrived.set_result(None)


def addressees(body: bytes) -> set[str | int]:
    """Return the ids of the nodes for which the server announces messages."""
    try:
        return {message.metadata.dst_node_id for message in PushAppMessagesRequest.FromString(body).messages_list}
    except DecodeError:
        return set()


def receiver_of(side: str, body: bytes) -> str | int:
    """Return who requests messages: the server, or the id of a node.

    Args:
        side: "server" or "nodes".
        body: The request.
    """
    try:
        return "server" if side == "server" else PullMessagesRequest.FromString(body).node.node_id
    except DecodeError:
        return 0


def rank_of(path: str) -> int:
    """Return how urgent a request is: the server comes first, since all wait for it, then heartbeats, which have five seconds.

    Then come parts of replies that are announced, for which the server waits 15 seconds, however many nodes ask for something.
    """
    return 0 if path.startswith("/v1/runtime/") else 1 if path == HEARTBEAT_PATH else 2 if path == REPLY_PATH else 3


def long_polling(app):
    """Return the ASGI application `app`, a SuperLink, with requests for messages that wait for at most `MAX_WAIT`.

    A side that asks for messages has sent all its own, so its request also wakes the other side. A request that fails is
    repeated: the SuperLink's database may be busy with large messages for longer than Flower waits for it.
    """
    arrivals, turns = Arrivals(), Turns()

    async def serve(scope, receive, send):
        if not scope.get("path", "").startswith(MESSAGE_PATHS):
            await app(scope, receive, send)
            return
        request = [await receive()]
        while request[-1].get("more_body"):
            request.append(await receive())
        disconnected = asyncio.ensure_future(receive())
        call, path = partial(call_app, app, turns, scope, request, disconnected), scope["path"]
        body = b"".join(part.get("body", b"") for part in request) if path in PULLS or path in PUSHES else b""
        try:
            response = await (wait_for_messages(call, arrivals, PULLS[path], body, disconnected) if path in PULLS else call())
        finally:
            disconnected.cancel()
        if path in PUSHES:
            arrivals.pushed(PUSHES[path], body)
        for part in response:
            await send(part)

    return serve


async def wait_for_messages(
    call: Callable[[], Awaitable[list[dict]]], arrivals: Arrivals, side: str, body: bytes, disconnected: asyncio.Future
) -> list[dict]:
    """Return the response to a request for messages, once it has some or `MAX_WAIT` is over.

    Args:
        call: Passes the request on.
        arrivals: Notices messages that arrive.
        side: Who requests messages, "server" or "nodes".
        body: Body of the request.
        disconnected: Done once the client has disconnected.
    """
    arrivals.pulls(side)
    receiver, end = receiver_of(side, body), asyncio.get_running_loop().time() + MAX_WAIT[side]
    while True:
        with arrivals.awaited(receiver) as arrived:
            response = await ask(call, arrivals, receiver)
            left = end - asyncio.get_running_loop().time()
            if not is_empty(response) or left <= 0:
                return response
            await asyncio.wait({arrived, disconnected}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            # A message in the response to a closed connection would be lost.
            if disconnected.done() or not arrived.done():
                return response


async def ask(call: Callable[[], Awaitable[list[dict]]], arrivals: Arrivals, receiver: str | int) -> list[dict]:
    """Return the response to a request for messages; the SuperLink is not asked if it has none for sure.

    Args:
        call: Passes the request on.
        arrivals: Notices messages that arrive.
        receiver: Who requests messages.
    """
    if receiver in arrivals.without:
        return NOTHING
    if receiver != "server":
        # A message that is announced meanwhile takes it away again.
        arrivals.without.add(receiver)
    response = GONE
    try:
        response = await call()
    finally:
        if not is_empty(response):
            arrivals.without.discard(receiver)
    return response


async def call_app(app, turns: Turns, scope, request: list[dict], disconnected: asyncio.Future) -> list[dict]:
    """Return the response of `app` to a complete request; status 500 is returned only after `TRIES` tries.

    A request whose sender has given up is not passed on: a SuperLink that is too slow would work on old requests only.

    Args:
        app: The ASGI application.
        turns: Lets one request pass at a time.
        scope: Scope of the request.
        request: Parts of the request.
        disconnected: Done once the client has disconnected.
    """
    for _ in range(TRIES):
        parts, response = iter(request), []

        async def receive(parts=parts):
            part = next(parts, None)
            return await asyncio.shield(disconnected) if part is None else part

        async def send(part, response=response):
            response.append(part)

        async with turns.take(rank_of(scope["path"])):
            if disconnected.done():
                return GONE
            await app({**scope, "state": dict(scope.get("state", {}))}, receive, send)
        if response[0].get("status") != 500:
            break
        await asyncio.sleep(PAUSE)
    return response


def is_empty(response: list[dict]) -> bool:
    """Whether a response is a success without content."""
    return response[0].get("status") == 200 and not any(part.get("body") for part in response)
