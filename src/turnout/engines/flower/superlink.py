"""Flower's SuperLink behind a guard: without the shared secret only the paths of nodes can be reached.

    python -m turnout.engines.flower.superlink SECRET-FILE [options of flower-superlink]

Flower asks for no key on the paths that start runs and register nodes (`/v1/control`) or take a run over
(`/v1/runtime/acquire-task`). Here such requests must carry the secret in the file. A request for messages waits until there are
some, see `long_polling`.
"""

import hmac
import json
import sys
import time
from collections.abc import Callable
from logging import WARNING
from pathlib import Path

import uvicorn
from flwr.common.logger import log
from flwr.server.superlink.utils import check_abort
from flwr.superlink.cli.flower_superlink import SuperLinkLifespan, _parse_superlink_lifespan_config
from flwr.superlink.main import create_app
from flwr.superlink.servicer.fleet import fleet_handlers

from turnout.engines.flower.asgi import call_middleware_directly
from turnout.engines.flower.long_poll import long_polling
from turnout.engines.flower.server_connection import SECRET_HEADER

NODE_PATHS = "/v1/fleet/"
"""The paths of nodes, which Flower guards by their keys."""

CACHE_SECONDS = 1.0
"""How long the answer that a run accepts messages stays valid."""


def require_secret(app, secret: str):
    """Return the ASGI application `app` that refuses every request outside the nodes' paths that does not carry the secret.

    Args:
        app: The ASGI application.
        secret: The secret that a request must carry.
    """

    async def guard(scope, receive, send):
        if scope["type"] == "http" and not scope["path"].startswith(NODE_PATHS):
            given = dict(scope["headers"]).get(SECRET_HEADER.encode(), b"")
            if not hmac.compare_digest(given, secret.encode()):
                log(WARNING, "refused %s to %s", scope["path"], scope["client"])
                body = json.dumps({"detail": "this path is closed"}).encode()
                await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"application/json")]})
                await send({"type": "http.response.body", "body": body})
                return
        await app(scope, receive, send)

    return guard


def cached(check: Callable[..., str | None]) -> Callable[..., str | None]:
    """Return `check`, which says why a run accepts no messages, with the answer "it does" cached for `CACHE_SECONDS`.

    The check is a sixth of a SuperLink's work for an exchange. Messages of a run that has ended are refused all the same.
    """
    valid_until: dict[int, float] = {}

    def checked(run: int, *rest) -> str | None:
        if time.monotonic() < valid_until.get(run, 0.0):
            return None
        reason = check(run, *rest)
        if reason is None:
            valid_until[run] = time.monotonic() + CACHE_SECONDS
        return reason

    return checked


def main() -> None:
    """Serve until stopped."""
    fleet_handlers.__dict__["check_abort"] = cached(check_abort)
    secret = Path(sys.argv.pop(1)).read_text().strip()
    call_middleware_directly()
    config = _parse_superlink_lifespan_config()
    app = require_secret(long_polling(create_app(config, SuperLinkLifespan)), secret)
    uvicorn.run(
        app,
        host=config.host,
        port=config.port,
        ssl_keyfile=config.ssl_keyfile,
        ssl_certfile=config.ssl_certfile,
        log_level="info",
        # A line for each request would be most of the log, and part of the time of an exchange.
        access_log=False,
    )


if __name__ == "__main__":
    main()
