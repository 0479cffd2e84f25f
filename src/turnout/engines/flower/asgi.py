"""Layers around an ASGI application whose answers are whole before they are sent."""

from collections.abc import Callable

from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import Response

from turnout.engines.flower.long_poll import SIDES


def quick_layers() -> None:
    """Let Starlette's layers call each other directly for requests of the server and of nodes.

    For answers that are streamed, of which these have none, each of the nine layers of a SuperLink would be a task with a queue,
    which together take as long as what the request is about.
    """
    streamed = BaseHTTPMiddleware.__call__

    async def call(layer: BaseHTTPMiddleware, scope, receive, send) -> None:
        if scope.get("path", "").startswith(SIDES):
            await direct(layer, scope, receive, send)
        else:
            await streamed(layer, scope, receive, send)

    type.__setattr__(BaseHTTPMiddleware, "__call__", call)


async def direct(layer: BaseHTTPMiddleware, scope, receive, send) -> None:
    """Do what a layer does, with the whole request and the whole answer of what is inside it."""
    request = Request(scope, receive)
    body = await request.body()

    async def call_next(request: Request) -> Response:
        start, content = {}, []

        async def keep(part: dict) -> None:
            start.update(part)
            content.append(part.get("body", b""))

        await layer.app(scope, again(body, receive), keep)
        response = Response(b"".join(content), start["status"])
        response.raw_headers = start["headers"]
        return response

    await (await layer.dispatch_func(request, call_next))(scope, receive, send)


def again(body: bytes, receive: Callable) -> Callable:
    """Return what tells a body that has been read, and after it what else `receive` has to tell."""
    first = [{"type": "http.request", "body": body}]

    async def told() -> dict:
        return first.pop() if first else await receive()

    return told
