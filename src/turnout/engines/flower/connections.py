"""Connections to the SuperLink: how many, and how long and how large until a request has begun."""

from asyncio import TimerHandle
from collections import Counter
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_CONNECTIONS, MOST_OF_ONE = 4096, 1024
"""Most connections, and most of one address."""

HEAD_SECONDS, HEAD_BYTES = 20.0, 2**16
"""Within which a request's headers must come, and how many bytes they may have; uvicorn limits neither."""


class Connection(HttpToolsProtocol):
    """A connection of uvicorn's that is closed if it brings no request soon, or is one too many of its address."""

    open: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport):
        super().connection_made(transport)
        self._host = self.client[0] if self.client else ""
        self._head_bytes, self._timer = 0, None
        self.open[self._host] += 1
        self._await_head()
        if self.open[self._host] > MOST_OF_ONE or len(self.connections) > MOST_CONNECTIONS:
            transport.abort()

    def connection_lost(self, exc):
        self._stop_waiting()
        self.open[self._host] -= 1
        if not self.open[self._host]:
            del self.open[self._host]
        super().connection_lost(exc)

    def data_received(self, data):
        if self._timer is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._timer is not None and self._head_bytes > HEAD_BYTES:
            self.transport.abort()

    def on_headers_complete(self):
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self):
        super().on_message_complete()
        self._head_bytes = 0

    def on_message_begin(self):
        self._await_head()
        super().on_message_begin()

    def _await_head(self) -> None:
        """Close the connection unless headers come in time."""
        if self._timer is None:
            self._timer: TimerHandle | None = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
