"""Requests for messages that wait at the SuperLink until there are some, so that neither side has to ask all the time."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

PUSHES = {"/v1/runtime/push-messages": "server", "/v1/fleet/push-messages": "nodes"}
POLLS = {"/v1/runtime/pull-messages": "server", "/v1/fleet/pull-messages": "nodes"}

SIDES = ("/v1/runtime/", "/v1/fleet/")
"""The paths of the server and of the nodes."""

HOLD = 1.0
"""Seconds that a request for messages is kept waiting, at most."""

TRIES, PAUSE = 5, 0.5
"""How often a request that fails is tried, and the seconds in between."""


class News:
    """What the two sides, the server and the nodes, wait for: that the other one has sent all it had to send."""

    def __init__(self):
        self.told = {side: asyncio.Event() for side in POLLS.values()}
        self.sent: set[str] = set()

    def pushed(self, side: str) -> None:
        """Note that `side` has announced messages, whose parts follow."""
        self.sent.add(side)

    def waits(self, side: str) -> None:
        """Wake the other side if `side`, which waits from now on, has sent something before."""
        if side in self.sent:
            self.sent.remove(side)
            other = "nodes" if side == "server" else "server"
            self.told[other].set()
            self.told[other] = asyncio.Event()


def patient(app):
    """Return the ASGI application `app`, a SuperLink, which answers requests for messages when there are some, or after `HOLD`.

    Who waits for messages has sent all of its own, so that its request is also what wakes the other side. A request that fails
    is tried again: the SuperLink's database may be busy with large messages for longer than Flower waits for it.
    """
    news, turn = News(), asyncio.Lock()

    async def serve(scope, receive, send):
        if not scope.get("path", "").startswith(SIDES):
            await app(scope, receive, send)
            return
        request = [await receive()]
        while request[-1].get("more_body"):
            request.append(await receive())
        gone = asyncio.ensure_future(receive())
        ask, path = partial(answered, app, turn, scope, request, gone), scope["path"]
        try:
            answer = await (poll(ask, news, POLLS[path], gone) if path in POLLS else ask())
        finally:
            gone.cancel()
        if path in PUSHES:
            news.pushed(PUSHES[path])
        for part in answer:
            await send(part)

    return serve


async def poll(ask: Callable[[], Awaitable[list[dict]]], news: News, side: str, gone: asyncio.Future) -> list[dict]:
    """Return the answer to a request for messages, once there is something to tell."""
    news.waits(side)
    end = asyncio.get_running_loop().time() + HOLD
    while True:
        told = asyncio.ensure_future(news.told[side].wait())
        try:
            answer = await ask()
            left = end - asyncio.get_running_loop().time()
            if not empty(answer) or left <= 0:
                return answer
            await asyncio.wait({told, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            # A message that is handed to nobody would be lost.
            if gone.done() or not told.done():
                return answer
        finally:
            told.cancel()


async def answered(app, turn: asyncio.Lock, scope, request: list[dict], gone: asyncio.Future) -> list[dict]:
    """Return what `app` answers to a request of which all parts are known; a failure only if it fails again and again."""
    for _ in range(TRIES):
        parts, answer = iter(request), []

        async def receive(parts=parts):
            part = next(parts, None)
            return await asyncio.shield(gone) if part is None else part

        async def send(part, answer=answer):
            answer.append(part)

        async with turn:
            await app({**scope, "state": dict(scope.get("state", {}))}, receive, send)
        if answer[0].get("status") != 500:
            break
        await asyncio.sleep(PAUSE)
    return answer


def empty(answer: list[dict]) -> bool:
    """Whether an answer is a good one without content."""
    return answer[0].get("status") == 200 and not any(part.get("body") for part in answer)
