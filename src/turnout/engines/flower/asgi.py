"""Faster ASGI middleware, for responses that are complete before they are sent."""

from collections.abc import Callable

from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import Response

from turnout.engines.flower.long_poll import MESSAGE_PATHS


def call_middleware_directly() -> None:
    """Let Starlette's middleware layers call each other directly for the requests of the server and of nodes.

    Starlette runs each of the nine layers of a SuperLink as a task with a queue, so that responses can be streamed. Responses to
    these requests are not streamed, and the tasks take as long as the work itself.
    """
    streamed = BaseHTTPMiddleware.__call__

    async def call(layer: BaseHTTPMiddleware, scope, receive, send) -> None:
        if scope.get("path", "").startswith(MESSAGE_PATHS):
            await dispatch_directly(layer, scope, receive, send)
        else:
            await streamed(layer, scope, receive, send)

    type.__setattr__(BaseHTTPMiddleware, "__call__", call)


async def dispatch_directly(layer: BaseHTTPMiddleware, scope, receive, send) -> None:
    """Run one layer on the complete request and the complete response of the layers inside it.

    Args:
        layer: The middleware layer.
        scope: Scope of the request.
        receive: ASGI's function to receive.
        send: ASGI's function to send.
    """
    request = Request(scope, receive)
    body = await request.body()

    async def call_next(request: Request) -> Response:
        start, content = {}, []

        async def collect(part: dict) -> None:
            start.update(part)
            content.append(part.get("body", b""))

        await layer.app(scope, replay_body(body, receive), collect)
        response = Response(b"".join(content), start["status"])
        response.raw_headers = start["headers"]
        return response

    await (await layer.dispatch_func(request, call_next))(scope, receive, send)


def replay_body(body: bytes, receive: Callable) -> Callable:
    """Return a `receive` that yields a body that was read already, and then what the original `receive` yields.

    Args:
        body: Body of the request.
        receive: ASGI's function to receive.
    """
    parts = [{"type": "http.request", "body": body}]

    async def replay() -> dict:
        return parts.pop() if parts else await receive()

    return replay
