"""A node's end of a Flower connection, which lives on between messages.

Stock SuperNodes start a process for each message, which costs seconds. What is used here instead is not documented by Flower and
belongs to its version 1.41.
"""

import functools
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from logging import WARNING
from pathlib import Path
from typing import NoReturn

import httpx
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.common.logger import log
from flwr.supercore import heartbeat
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode import fleet_http_connection

from turnout.core.errors import UserError
from turnout.engines.flower.chunks import HALVED, MALFORMED, fetched, push_parts, slim

POLL = 0.05
"""Seconds between two looks for messages."""

KNOCKING = 60.0
"""Seconds for which a node that is refused tries again."""

HEARTBEAT = 10
"""Seconds between signs of life of a node, the fewest that Flower allows. After two of them a killed one may come again."""

LOST = (httpx.HTTPStatusError, RunNotRunningException, *HALVED)
"""What a node meets whose server or SuperLink was killed."""


class Refused(Exception):
    """The SuperLink does not let a node in."""


def refuse(code: int, message: str | None = None, **_) -> NoReturn:
    """Take the place of what ends a process in Flower."""
    raise Refused((message or f"exit code {code}").strip())


def serve(app: ClientApp, address: str, authority: Path, keys: tuple) -> None:
    """Answer messages with `app` until stopped, as the node with `keys` of the SuperLink at `address`.

    A node that is refused, as one that was killed is for a while, or one whose key is not known yet, knocks for `KNOCKING`
    seconds.
    """
    end = time.monotonic() + KNOCKING
    while True:
        try:
            _serve(app, address, authority, keys)
        except Refused as error:
            if time.monotonic() > end:
                raise UserError(f"the SuperLink at {address} refuses this node: {error}") from None
            time.sleep(KNOCKING / 20)


def _serve(app: ClientApp, address: str, authority: Path, keys: tuple) -> None:
    with connected(address, authority, keys) as connection:
        node_id, receive, *_ = connection
        context = Context(0, node_id, {}, RecordDict(), {})
        while True:
            got = receive()
            if got is None:
                time.sleep(POLL)
                continue
            try:
                answer(app, context, connection, *got)
            except (*LOST, *MALFORMED) as error:
                log(WARNING, "a message could not be answered: %r", error)


@contextmanager
def connected(address: str, authority: Path, keys: tuple) -> Iterator[tuple]:
    """Be the node with `keys` of the SuperLink at `address` inside, and yield what Flower gives a node to talk by."""
    # Stopped at once it would not say goodbye, and be refused for a while when it comes again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    fleet_http_connection.__dict__["flwr_exit"] = refuse
    for module in (fleet_http_connection, heartbeat):
        vars(module)["HEARTBEAT_DEFAULT_INTERVAL"] = HEARTBEAT
    with fleet_http_connection.http_request_response(address, False, authority.read_bytes(), keys) as connection:
        TaskIdentity.node_id = connection[0]
        yield connection


def answer(app: ClientApp, context: Context, connection: tuple, head: Message, tree) -> None:
    """Fetch a message, and send what `app` replies."""
    message = fetch(connection, head, tree)
    try:
        reply = app(message, context)
    except Exception as error:
        reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, repr(error)), reply_to=message)
    post(connection, reply)


def fetch(connection: tuple, head: Message, tree) -> Message:
    """Return the whole of a message, of which its `head` and the `tree` of its parts are here."""
    *_, pull_object, _, confirm = connection
    run, number = head.metadata.run_id, head.metadata.message_id
    TaskIdentity.run_id, TaskIdentity.task_id = run, 0
    message = fetched(head, tree, functools.partial(pull_object, run))
    confirm(run, number)
    return message


def post(connection: tuple, reply: Message) -> None:
    """Send a reply."""
    _, _, send, *_, push_object, _ = connection
    reply = slim(reply)
    with no_object_id_recompute():
        reply.metadata.__dict__["_message_id"] = reply.object_id
        missing, session = send(reply, get_object_tree(reply), 0.0)
        run, nested = reply.metadata.run_id, get_all_nested_objects(reply)
        push_parts(nested, functools.partial(push_object, run, session), object_ids_to_push=missing)
