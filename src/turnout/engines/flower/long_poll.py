"""Long polling: a request for messages waits at the SuperLink until there are some, so that nobody asks again and again."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

PUSHES = {"/v1/runtime/push-messages": "server", "/v1/fleet/push-messages": "nodes"}
PULLS = {"/v1/runtime/pull-messages": "server", "/v1/fleet/pull-messages": "nodes"}

MESSAGE_PATHS = ("/v1/runtime/", "/v1/fleet/")
"""The paths of the server and of the nodes."""

MAX_WAIT = {"server": 1.0, "nodes": 5.0}
"""The longest time in seconds that a request for messages waits; a server has a deadline, and nodes may be many."""

TRIES, PAUSE = 5, 0.5
"""How often a failing request is tried, and the seconds in between."""


class Arrivals:
    """Two events, one for the server and one for the nodes: the other side has sent all its messages."""

    def __init__(self):
        self.events = {side: asyncio.Event() for side in PULLS.values()}
        self.sent: set[str] = set()

    def pushed(self, side: str) -> None:
        """Record that `side` has announced messages, whose objects follow."""
        self.sent.add(side)

    def pulls(self, side: str) -> None:
        """Wake the other side if `side`, which waits from now on, has sent messages before."""
        if side in self.sent:
            self.sent.remove(side)
            other = "nodes" if side == "server" else "server"
            self.events[other].set()
            self.events[other] = asyncio.Event()


def long_polling(app):
    """Return the ASGI application `app`, a SuperLink, with requests for messages that wait for at most `MAX_WAIT`.

    A side that asks for messages has sent all its own, so its request also wakes the other side. A request that fails is
    repeated: the SuperLink's database may be busy with large messages for longer than Flower waits for it.
    """
    arrivals, lock = Arrivals(), asyncio.Lock()

    async def serve(scope, receive, send):
        if not scope.get("path", "").startswith(MESSAGE_PATHS):
            await app(scope, receive, send)
            return
        request = [await receive()]
        while request[-1].get("more_body"):
            request.append(await receive())
        disconnected = asyncio.ensure_future(receive())
        call, path = partial(call_app, app, lock, scope, request, disconnected), scope["path"]
        try:
            response = await (wait_for_messages(call, arrivals, PULLS[path], disconnected) if path in PULLS else call())
        finally:
            disconnected.cancel()
        if path in PUSHES:
            arrivals.pushed(PUSHES[path])
        for part in response:
            await send(part)

    return serve


async def wait_for_messages(
    call: Callable[[], Awaitable[list[dict]]], arrivals: Arrivals, side: str, disconnected: asyncio.Future
) -> list[dict]:
    """Return the response to a request for messages, once it has some or `MAX_WAIT` is over.

    Args:
        call: Passes the request on.
        arrivals: Notices messages that arrive.
        side: Who requests messages, "server" or "nodes".
        disconnected: Done once the client has disconnected.
    """
    arrivals.pulls(side)
    end = asyncio.get_running_loop().time() + MAX_WAIT[side]
    while True:
        arrived = asyncio.ensure_future(arrivals.events[side].wait())
        try:
            response = await call()
            left = end - asyncio.get_running_loop().time()
            if not is_empty(response) or left <= 0:
                return response
            await asyncio.wait({arrived, disconnected}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            # A message in the response to a closed connection would be lost.
            if disconnected.done() or not arrived.done():
                return response
        finally:
            arrived.cancel()


async def call_app(app, lock: asyncio.Lock, scope, request: list[dict], disconnected: asyncio.Future) -> list[dict]:
    """Return the response of `app` to a complete request; status 500 is returned only after `TRIES` tries.

    Args:
        app: The ASGI application.
        lock: Lets one request pass at a time.
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

        async with lock:
            await app({**scope, "state": dict(scope.get("state", {}))}, receive, send)
        if response[0].get("status") != 500:
            break
        await asyncio.sleep(PAUSE)
    return response


def is_empty(response: list[dict]) -> bool:
    """Whether a response is a success without content."""
    return response[0].get("status") == 200 and not any(part.get("body") for part in response)
