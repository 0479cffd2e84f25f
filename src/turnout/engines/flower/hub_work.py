"""What a hub does in the background while the server asks for what comes of it."""

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from hashlib import sha256

from turnout.core.background import in_background
from turnout.engines.flower.hub_play import packed_busy
from turnout.engines.node import LastReply


def none() -> int:
    """Return no exchanges."""
    return 0


class Work:
    """Work in the background, of one request at a time.

    A request that is repeated gets the same reply; while the hub is at work, it gets the number of exchanges so far.

    Attributes:
        done: How many exchanges the work at hand has made so far.
    """

    def __init__(self):
        self.last, self.done = LastReply(), none
        self._future: Future[bytes] | None = None
        self._request = b""

    def answer(self, request: bytes, seconds: float, work: Callable[[], bytes]) -> bytes:
        """Return the reply to a request, or how far the work is.

        Args:
            request: Header of the request, and a digest of its body.
            seconds: Within which to answer.
            work: Does the work, and returns the reply.
        """
        request, end = sha256(request).digest(), time.monotonic() + seconds
        while (reply := self.last.to(request)) is None:
            if self._future is None:
                self._request, self.done = request, none
                self._future = in_background(work)
            if not wait([self._future], max(0.0, end - time.monotonic())).done:
                return packed_busy(self.done() if self._request == request else 0)
            future, self._future = self._future, None
            if self._request == request or future.exception() is None:
                self.last.put(self._request, future.result())
        return reply
