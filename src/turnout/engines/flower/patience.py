"""Requests for messages that wait at the SuperLink until there are some, so that neither side has to ask all the time."""

import asyncio

PUSHES = {"/v1/runtime/push-messages": "server", "/v1/fleet/push-messages": "nodes"}
POLLS = {"/v1/runtime/pull-messages": "server", "/v1/fleet/pull-messages": "nodes"}

HOLD = 1.0
"""Seconds that a request for messages is kept waiting, at most."""


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

    Who waits for messages has sent all of its own, so that its request is also what wakes the other side.
    """
    news = News()

    async def serve(scope, receive, send):
        path = scope.get("path")
        if path in POLLS:
            await poll(app, news, POLLS[path], scope, receive, send)
            return
        await app(scope, receive, send)
        if path in PUSHES:
            news.pushed(PUSHES[path])

    return serve


async def poll(app, news: News, side: str, scope, receive, send) -> None:
    """Answer one request for messages."""
    request = [await receive()]
    while request[-1].get("more_body"):
        request.append(await receive())
    news.waits(side)
    gone = asyncio.ensure_future(receive())
    loop = asyncio.get_running_loop()
    end = loop.time() + HOLD
    try:
        while True:
            told = asyncio.ensure_future(news.told[side].wait())
            answer = await answered(app, scope, request, gone)
            if not empty(answer):
                break
            await asyncio.wait({told, gone}, timeout=end - loop.time(), return_when=asyncio.FIRST_COMPLETED)
            # A message that is handed to nobody would be lost.
            if gone.done() or not told.done():
                break
    finally:
        told.cancel()
        gone.cancel()
    for part in answer:
        await send(part)


async def answered(app, scope, request: list[dict], gone: asyncio.Future) -> list[dict]:
    """Return what `app` answers to a request of which all parts are known."""
    parts, answer = iter(request), []

    async def receive():
        part = next(parts, None)
        return await asyncio.shield(gone) if part is None else part

    async def send(part):
        answer.append(part)

    await app({**scope, "state": dict(scope.get("state", {}))}, receive, send)
    return answer


def empty(answer: list[dict]) -> bool:
    """Whether an answer is a good one without content."""
    return answer[0].get("status") == 200 and not any(part.get("body") for part in answer)
