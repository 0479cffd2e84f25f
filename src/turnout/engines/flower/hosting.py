"""The nodes of one or several clients in one process, each with its own key and connection."""

import time
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import partial
from logging import WARNING
from pathlib import Path
from threading import Event, Lock

import httpx
from flwr.app import Context, Message, RecordDict
from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_TOLERANCE
from flwr.common.logger import log
from flwr.supercore.date import now

from turnout.core.background import in_background
from turnout.core.errors import UserError
from turnout.core.spare_memory import drop_programs, give_back
from turnout.engines.flower.chunks import MALFORMED
from turnout.engines.flower.node_connection import DISCONNECTED, POLL, Connection, Refused, answer, stop_at_sigterm
from turnout.engines.flower.registry import REVOKED

RETRY_SECONDS = 60.0
"""Seconds for which a node that is refused tries again."""

STOP_SECONDS = 3.0
"""Seconds within which a node that is stopped ends its request."""

TIDY_SECONDS = 10.0
"""Least time between two returns of freed memory to the system."""

App = Callable[[Message, Context], Message]


def serve(members: list[tuple[App, tuple]], address: str, authority: Path) -> None:
    """Answer messages until stopped, as several nodes of the SuperLink at `address`.

    The nodes wait for messages and transfer them side by side, and compute one after the other. A node that is refused tries
    again for `RETRY_SECONDS`: its key may not be known yet, or it was killed and the SuperLink has not noticed. After that the
    others go on without it.

    Args:
        members: App, and private and public key, of each node.
        address: HOST:PORT of the SuperLink.
        authority: File of the authority's certificate.

    Raises:
        UserError: No node is left.
    """
    stop_at_sigterm()
    # What was compiled to build the clients is not needed again.
    drop_programs()
    turn = Turn()
    hosts = [Host(turn.of(app), address, authority, keys) for app, keys in members]
    running = [in_background(host.stay) for host in hosts]
    try:
        wait(running)
    finally:
        for host in hosts:
            host.stopped.set()
        wait(running, STOP_SECONDS)
        for host in hosts:
            host.leave()
    for future in running:
        future.result()


class Turn:
    """Lets the apps of a process compute one after the other, and gives back what memory they have freed."""

    def __init__(self):
        self._lock, self._next = Lock(), 0.0

    def of(self, app: App) -> App:
        """Return `app`, which waits for its turn."""

        def call(message: Message, context: Context) -> Message:
            with self._lock:
                reply = app(message, context)
                if time.monotonic() > self._next:
                    give_back()
                    self._next = time.monotonic() + TIDY_SECONDS
                return reply

        return call


class Host:
    """One node of a process.

    Args:
        app: The app of the node.
        address: HOST:PORT of the SuperLink.
        authority: File of the authority's certificate.
        keys: Private and public key of the node.
    """

    def __init__(self, app: App, address: str, authority: Path, keys: tuple):
        self.app, self.address, self.stopped = app, address, Event()
        self.connect = partial(Connection, address, authority, keys)
        self._open = None

    def stay(self) -> None:
        """Answer messages until stopped; `UserError` if the SuperLink refuses the node for too long."""
        end = None
        while not self.stopped.is_set():
            try:
                self._serve()
                end = None
            except Refused as error:
                end = end or time.monotonic() + RETRY_SECONDS
                told = reason_of(error, self.address)
                if told is None and time.monotonic() > end:
                    told = f"the SuperLink at {self.address} refuses this node: {error}"
                if told is not None:
                    log(WARNING, "%s", told)
                    raise UserError(told) from None
                self.stopped.wait(RETRY_SECONDS / 20)

    def leave(self) -> None:
        """Close the connection of a node that has not ended in time, so that it may connect again at once."""
        if self._open is not None:
            with suppress(Exception):
                self._open.__exit__(None, None, None)

    def _serve(self) -> None:
        self._open = self.connect()
        with self._open as connection:
            context = Context(0, connection.node.node_id, {}, RecordDict(), {})
            while not self.stopped.is_set():
                received = connection.receive()
                if received is None:
                    self.stopped.wait(POLL)
                    continue
                try:
                    answer(self.app, context, connection, *received)
                except (*DISCONNECTED, *MALFORMED) as error:
                    log(WARNING, "a message could not be answered: %r", error)
        self._open = None


def reason_of(error: Refused, address: str) -> str | None:
    """Return why trying again does not help a refused node, or None: it was revoked, or its clock or the certificate is wrong.

    Args:
        error: The refusal.
        address: HOST:PORT of the SuperLink.
    """
    if REVOKED in str(error):
        return f"the SuperLink at {address} refuses this node: {REVOKED}"
    cause = error.__context__
    if isinstance(cause, httpx.ConnectError) and "CERTIFICATE" in str(cause):
        return (
            f"the certificate of the SuperLink at {address} is not accepted ({cause}): give this node the SuperLink's ca.crt, "
            "and set its clock if the certificate is said not to be valid yet or any more"
        )
    if isinstance(cause, httpx.HTTPStatusError) and "date" in cause.response.headers:
        ahead = (now() - parsedate_to_datetime(cause.response.headers["date"])).total_seconds()
        # The time of an answer is that before the SuperLink was busy.
        busy = cause.response.elapsed.total_seconds()
        if not -TIMESTAMP_TOLERANCE - busy < ahead < SYSTEM_TIME_TOLERANCE + busy:
            return (
                f"the clock of this machine is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} that of the SuperLink "
                f"at {address}, which refuses the node: set both clocks, for example by timedatectl set-ntp true"
            )
    return None
