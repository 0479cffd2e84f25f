"""Flower's SuperLink behind a guard: of what it serves on its one port, strangers reach the nodes' paths only.

    python -m turnout.engines.flower.superlink SECRET-FILE [flower-superlink's options]

Flower asks nobody who starts runs or registers nodes (`/v1/control`), or who takes over a run (`/v1/runtime/acquire-task`), for a
key of any kind. Here such requests have to carry the secret word in the file. Who asks for messages while there are none is kept
waiting for a while, see `patient`.
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

from turnout.engines.flower.asgi import quick_layers
from turnout.engines.flower.long_poll import patient
from turnout.engines.flower.server_connection import HEADER

OPEN = "/v1/fleet/"
"""The nodes' paths, which Flower guards by their keys."""

FRESH = 1.0
"""Seconds for which a run that took messages is taken to do so still."""


def guarded(app, secret: str):
    """Return the ASGI application `app`, which refuses requests that are neither a node's nor carry the secret word."""

    async def guard(scope, receive, send):
        if scope["type"] == "http" and not scope["path"].startswith(OPEN):
            word = dict(scope["headers"]).get(HEADER.encode(), b"")
            if not hmac.compare_digest(word, secret.encode()):
                log(WARNING, "refused %s to %s", scope["path"], scope["client"])
                body = json.dumps({"detail": "this path is closed"}).encode()
                await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"application/json")]})
                await send({"type": "http.response.body", "body": body})
                return
        await app(scope, receive, send)

    return guard


def lately(check: Callable[..., str | None]) -> Callable[..., str | None]:
    """Return `check`, which says why a run takes no messages, for requests of nodes: it is not repeated for `FRESH` seconds.

    It is a sixth of what a SuperLink does for an exchange. Messages of a run that has ended are refused all the same.
    """
    found: dict[int, float] = {}

    def checked(run: int, *rest) -> str | None:
        if time.monotonic() < found.get(run, 0.0):
            return None
        why = check(run, *rest)
        if why is None:
            found[run] = time.monotonic() + FRESH
        return why

    return checked


def main() -> None:
    """Serve until stopped."""
    fleet_handlers.__dict__["check_abort"] = lately(check_abort)
    secret = Path(sys.argv.pop(1)).read_text().strip()
    quick_layers()
    config = _parse_superlink_lifespan_config()
    app = guarded(patient(create_app(config, SuperLinkLifespan)), secret)
    uvicorn.run(
        app,
        host=config.host,
        port=config.port,
        ssl_keyfile=config.ssl_keyfile,
        ssl_certfile=config.ssl_certfile,
        log_level="info",
        # A line for each request would be most of the log, and a part of the time that an exchange takes.
        access_log=False,
    )


if __name__ == "__main__":
    main()
