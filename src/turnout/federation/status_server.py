"""A web server that shows the status of a run: a page, JSON, and metrics for Prometheus."""

import socket
from base64 import b64decode
from datetime import UTC, datetime
from hmac import compare_digest
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from turnout.core.errors import UserError
from turnout.engines.flower import keys
from turnout.engines.flower.console import dated_config
from turnout.federation.metrics import CONTENT_TYPE, exposition
from turnout.federation.status import STATUS, read_status
from turnout.report.html import TEMPLATES

REFRESH = 5
"""Seconds after which a browser loads the page again."""

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


class Readers(AuthenticationBackend):
    """Knows readers by a token: that of a bearer, or a password with any name, for which browsers ask.

    Args:
        token: The token.
    """

    def __init__(self, token: str):
        self.token = token.encode()

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser]:
        scheme, _, given = conn.headers.get("authorization", "").partition(" ")
        told = given.encode()
        if scheme.lower() == "basic":
            try:
                told = b64decode(told).partition(b":")[2]
            except ValueError:
                told = b""
        if not compare_digest(told, self.token):
            raise AuthenticationError("the token of this federation is needed")
        return AuthCredentials(), SimpleUser("reader")


def status_app(folder: Path, middleware: Middleware) -> Starlette:
    """Return the application that shows the status of the run in `folder`, and changes nothing.

    Args:
        folder: Folder of the results.
        middleware: Decides who may read it.
    """

    def page(request: Request) -> Response:
        status = read_status(folder)
        age = (datetime.now(UTC) - status.written).total_seconds()
        shown = TEMPLATES.get_template("status.html").render(status=status, age=max(0.0, age), refresh=REFRESH)
        return Response(shown, headers=HEADERS, media_type="text/html")

    def as_json(request: Request) -> Response:
        return Response(STATUS.dump_json(read_status(folder), indent=2), headers=HEADERS, media_type="application/json")

    def metrics(request: Request) -> Response:
        return Response(exposition(read_status(folder)), headers={**HEADERS, "Content-Type": CONTENT_TYPE})

    async def unreadable(request: Request, error: Exception) -> Response:
        return PlainTextResponse(f"{error}\n", 503, {**HEADERS, "Refresh": str(REFRESH)})

    return Starlette(
        routes=[Route("/", page), Route("/status.json", as_json), Route("/metrics", metrics)],
        middleware=[middleware],
        exception_handlers={UserError: unreadable},
    )


def status_server(folder: Path, address: str, key_folder: Path | None = None) -> tuple[uvicorn.Server, socket.socket]:
    """Return a server of the status of the run in `folder`, and the socket at which it listens: `server.run([socket])`.

    Args:
        folder: Folder of the results.
        address: HOST:PORT to listen at.
        key_folder: Folder of `turnout certify`, for TLS and the token; None for readers on this machine alone.

    Raises:
        UserError: Nothing can listen there, or other machines could read it without a token.
    """
    listening = _listening(address)
    if key_folder is None:
        if not ip_address(listening.getsockname()[0]).is_loopback:
            listening.close()
            raise UserError(
                f"other machines reach {address}: give it the folder of turnout certify, with --keys, or listen at 127.0.0.1"
            )
        # Pages of other sites must not read it through a name of theirs for this address.
        middleware, tls = Middleware(TrustedHostMiddleware, allowed_hosts=["localhost", "127.0.0.1"]), {}
    else:
        keys.check_folder(key_folder)
        middleware = Middleware(AuthenticationMiddleware, backend=Readers(keys.status_token(key_folder)), on_error=_refused)
        tls = {"ssl_certfile": key_folder / keys.CERTIFICATE, "ssl_keyfile": key_folder / keys.KEY}
    config = uvicorn.Config(
        status_app(folder, middleware), log_config=dated_config(), access_log=False, server_header=False, ws="none", **tls
    )
    return uvicorn.Server(config), listening


def _listening(address: str) -> socket.socket:
    """Return a socket that listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not (host and port.isdecimal() and int(port) < 2**16):
        raise UserError(f"--serve {address}: name an address and a port, such as 127.0.0.1:8080")
    try:
        return socket.create_server((host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UserError(f"--serve {address}: nothing can listen there ({error}): choose another") from None


def _refused(conn: HTTPConnection, error: Exception) -> Response:
    return PlainTextResponse(f"{error}\n", 401, {**HEADERS, "WWW-Authenticate": 'Basic realm="turnout"'})
