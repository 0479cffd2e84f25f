"""The SuperLink's guard: who may send a request, how large it may be, and how many one sender may have at a time."""

import asyncio
import binascii
import hmac
import json
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Callable
from logging import WARNING

from cryptography.exceptions import UnsupportedAlgorithm
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.common.logger import log
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature
from starlette.concurrency import run_in_threadpool

from turnout.engines.flower.long_poll import HEARTBEAT_PATH
from turnout.engines.flower.server_connection import SECRET_HEADER

NODE_PATHS = "/v1/fleet/"
"""The paths of nodes, which Flower guards by their keys."""

FIRST_PATH = "/v1/fleet/activate-node"
"""The path of a node's first request, which tells it why it is refused, as heartbeats do.

At the status 401 a node of Flower's ends without a word, and at 403 it takes the run to be over.
"""

UNKNOWN = "this key is not registered"
"""Why a node is refused whose key the SuperLink does not know."""

SERVER_BYTES, OBJECT_BYTES, OTHER_BYTES = 64 * 2**20, 8 * 2**20, 2**16
"""Most bytes of a request of the server, of a request by which a node sends messages or objects, and of other requests."""

MOST_AT_ONCE = 8
"""Most requests of one node at a time: it has one for messages or objects, and one for its heartbeat."""

REQUESTS_PER_SECOND, BURST = 200.0, 1000
"""A node that sends more than `BURST` requests in a row waits, so that it sends so many a second."""

RELOAD_SECONDS = 1.0
"""Least time between two readings of the registered keys."""


class TooLarge(Exception):
    """A request has more bytes than it may have."""


class Keys:
    """The public keys that are registered; they are read again when they have changed, or one is not among them.

    Args:
        read: Returns all registered keys, and for each why it is refused, or None.
        changed: Returns whether they have changed since they were read.
    """

    def __init__(self, read: Callable[[], dict[bytes, str | None]], changed: Callable[[], bool] = lambda: False):
        self.read, self.changed = read, changed
        self.known: dict[bytes, str | None] = {}
        self._next, self._reading, self._valid = 0.0, asyncio.Lock(), False

    async def why_not(self, key: bytes) -> str | None:
        """Return why `key` is refused, or None, which may take `RELOAD_SECONDS` for a key that is not registered."""
        self._valid = self._valid and not self.changed()
        if not self._valid or key not in self.known:
            asked = time.monotonic()
            async with self._reading:
                if not self._valid or self._next - RELOAD_SECONDS < asked:
                    await asyncio.sleep(max(0.0, self._next - time.monotonic()) if self._valid else 0.0)
                    self.known, self._valid = await run_in_threadpool(self.read), True
                    self._next = time.monotonic() + RELOAD_SECONDS
        return self.known.get(key, UNKNOWN)


class Pace:
    """How many requests each sender has at a time, and when it may send the next one."""

    def __init__(self):
        self.at_once: Counter[bytes] = Counter()
        self.earliest: dict[bytes, float] = {}

    def delay(self, key: bytes) -> float:
        """Count a request of `key`, and return for how many seconds it has to wait."""
        now = time.monotonic()
        self.earliest[key] = max(self.earliest.get(key, 0.0), now - BURST / REQUESTS_PER_SECOND) + 1 / REQUESTS_PER_SECOND
        return max(0.0, self.earliest[key] - now)


def guarded(app, secret: str, keys: Keys):
    """Return the ASGI application `app`, a SuperLink, that reads no request before it knows who sends it.

    Requests to the paths of nodes must carry the signature of a registered key, all others the secret. Flower checks the
    signatures again, with the rest of the request.

    Args:
        app: The ASGI application.
        secret: The secret that a request must carry.
        keys: The registered keys.
    """
    pace = Pace()

    async def guard(scope, receive, send):
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers, path = dict(scope["headers"]), scope["path"]
        if not path.startswith(NODE_PATHS):
            if not hmac.compare_digest(headers.get(SECRET_HEADER.encode(), b""), secret.encode()):
                await refuse(scope, send, 403, "this path is closed")
            else:
                await bounded(app, scope, receive, send, SERVER_BYTES)
            return
        key = sender(headers)
        reason = UNKNOWN if key is None else await keys.why_not(key)
        if reason is not None:
            told = path == FIRST_PATH or reason != UNKNOWN
            await refuse(scope, send, 503 if told and path == HEARTBEAT_PATH else 410 if told else 401, reason)
        elif not signed(headers, key):
            await refuse(scope, send, 401, "the signature is wrong")
        elif pace.at_once[key] >= MOST_AT_ONCE:
            await refuse(scope, send, 429, "one node has too many requests at a time")
        else:
            pace.at_once[key] += 1
            try:
                await asyncio.sleep(pace.delay(key))
                await bounded(app, scope, receive, send, OBJECT_BYTES if "/push-" in path else OTHER_BYTES)
            finally:
                pace.at_once[key] -= 1

    return guard


async def bounded(app, scope, receive, send, limit: int) -> None:
    """Pass a request on to `app`, and refuse it where its body has more than `limit` bytes.

    Args:
        app: The ASGI application, which reads the whole request before it answers.
        scope: Scope of the request.
        receive: ASGI's function to receive.
        send: ASGI's function to send.
        limit: Most bytes of the body.
    """
    left = limit

    async def counted() -> dict:
        nonlocal left
        part = await receive()
        left -= len(part.get("body", b""))
        if left < 0:
            raise TooLarge
        return part

    declared = dict(scope["headers"]).get(b"content-length", b"0")
    try:
        if not declared.isdigit() or len(declared) > 18 or int(declared) > limit:
            raise TooLarge
        await app(scope, counted, send)
    except TooLarge:
        await refuse(scope, send, 413, f"a request to this path has at most {limit:,} bytes")


def sender(headers: dict[bytes, bytes]) -> bytes | None:
    """Return the public key that a request names, or None."""
    try:
        return b64decode(headers[FLEET_HTTP_PUBLIC_KEY_HEADER.encode()], validate=True)
    except (KeyError, binascii.Error):
        return None


def signed(headers: dict[bytes, bytes], key: bytes) -> bool:
    """Return whether a request carries a time with the signature of `key`; Flower checks that it is now.

    Args:
        headers: Headers of the request.
        key: The public key.
    """
    try:
        signature = b64decode(headers[FLEET_HTTP_SIGNATURE_HEADER.encode()], validate=True)
        return verify_signature(bytes_to_public_key(key), headers[TIMESTAMP_HEADER.encode()], signature)
    except (KeyError, ValueError, UnsupportedAlgorithm):
        return False


async def refuse(scope, send, status: int, detail: str) -> None:
    """Answer a request that was not read, and close its connection.

    Args:
        scope: Scope of the request.
        send: ASGI's function to send.
        status: Status of the answer.
        detail: Why.
    """
    log(WARNING, "refused %.200r to %s: %s", scope["path"], scope["client"], detail)
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"code": status, "detail": detail}).encode()})
