"""A node's end of a Flower connection: one process for all messages.

Flower's own SuperNodes start a process for each message, which takes seconds. This module uses parts of Flower 1.41 that are not
documented.
"""

import functools
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from logging import ERROR, WARNING
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
from turnout.engines.flower.chunks import INTERRUPTED, MALFORMED, as_single_object, fetch_message, push_one_by_one
from turnout.engines.flower.registry import REVOKED

POLL = 0.05
"""Seconds between two requests for messages."""

RETRY_SECONDS = 60.0
"""Seconds for which a node that is refused tries again."""

HEARTBEAT = 10
"""Seconds between heartbeats of a node, the least that Flower allows. After two of them a killed node may connect again."""

DISCONNECTED = (httpx.HTTPStatusError, RunNotRunningException, *INTERRUPTED)
"""The errors of a node whose server or SuperLink was killed."""


class Refused(Exception):
    """The SuperLink refuses a node."""


def refuse(code: int, message: str | None = None, **_) -> NoReturn:
    """Raise `Refused` where Flower ends the process.

    Args:
        code: Exit code.
        message: Reason.
    """
    raise Refused((message or f"exit code {code}").strip())


def serve(app: ClientApp, address: str, authority: Path, keys: tuple) -> None:
    """Answer messages with `app` until stopped, as the node with `keys` of the SuperLink at `address`.

    A node that is refused tries again for `RETRY_SECONDS`: its key may not be known yet, or it was killed and the SuperLink has
    not noticed.

    Args:
        app: The app of the node.
        address: HOST:PORT of the SuperLink.
        authority: File of the authority's certificate.
        keys: Private and public key of the node.
    """
    end = time.monotonic() + RETRY_SECONDS
    while True:
        try:
            _serve(app, address, authority, keys)
        except Refused as error:
            if REVOKED in str(error):
                raise UserError(f"the SuperLink at {address} refuses this node: {REVOKED}") from None
            if time.monotonic() > end:
                raise UserError(f"the SuperLink at {address} refuses this node: {error}") from None
            time.sleep(RETRY_SECONDS / 20)


def _serve(app: ClientApp, address: str, authority: Path, keys: tuple) -> None:
    with connected(address, authority, keys) as connection:
        node_id, receive, *_ = connection
        context = Context(0, node_id, {}, RecordDict(), {})
        while True:
            received = receive()
            if received is None:
                time.sleep(POLL)
                continue
            try:
                answer(app, context, connection, *received)
            except (*DISCONNECTED, *MALFORMED) as error:
                log(WARNING, "a message could not be answered: %r", error)


@contextmanager
def connected(address: str, authority: Path, keys: tuple) -> Iterator[tuple]:
    """Connect the node with `keys` to the SuperLink at `address`, and yield Flower's functions to receive and send messages.

    Args:
        address: HOST:PORT of the SuperLink.
        authority: File of the authority's certificate.
        keys: Private and public key of the node.
    """
    # A node that ends without closing the connection is refused for a while when it connects again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    fleet_http_connection.__dict__["flwr_exit"] = refuse
    for module in (fleet_http_connection, heartbeat):
        vars(module)["HEARTBEAT_DEFAULT_INTERVAL"] = HEARTBEAT
    with fleet_http_connection.http_request_response(address, False, authority.read_bytes(), keys) as connection:
        TaskIdentity.node_id = connection[0]
        yield connection


def answer(app: ClientApp, context: Context, connection: tuple, head: Message, tree) -> None:
    """Fetch a message, and send the reply of `app`.

    Args:
        app: The app of the node.
        context: Flower's context of the app.
        connection: What `connected` yields.
        head: The message without its content.
        tree: Tree of the objects of the message.
    """
    message = fetch(connection, head, tree)
    try:
        reply = app(message, context)
    except Exception:
        # What went wrong may tell something of the client's data.
        log(ERROR, "a message could not be answered", exc_info=True)
        reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, "client error: see the node's log"), reply_to=message)
    send_reply(connection, reply)


def fetch(connection: tuple, head: Message, tree) -> Message:
    """Return the whole message with this `head` and this `tree` of objects.

    Args:
        connection: What `connected` yields.
        head: The message without its content.
        tree: Tree of the objects of the message.
    """
    *_, pull_object, _, confirm = connection
    run, number = head.metadata.run_id, head.metadata.message_id
    TaskIdentity.run_id, TaskIdentity.task_id = run, 0
    message = fetch_message(head, tree, functools.partial(pull_object, run))
    confirm(run, number)
    return message


def send_reply(connection: tuple, reply: Message) -> None:
    """Send a reply.

    Args:
        connection: What `connected` yields.
        reply: The reply.
    """
    _, _, send, *_, push_object, _ = connection
    reply = as_single_object(reply)
    with no_object_id_recompute():
        reply.metadata.__dict__["_message_id"] = reply.object_id
        missing, session = send(reply, get_object_tree(reply), 0.0)
        run, nested = reply.metadata.run_id, get_all_nested_objects(reply)
        push_one_by_one(nested, functools.partial(push_object, run, session), object_ids_to_push=missing)
