"""A node's end of a Flower connection.

Flower's own SuperNodes start a process for each message, which takes seconds. This module uses parts of Flower 1.41 that are not
documented.
"""

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import ERROR
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import httpx
from flwr.app import Context, Error, Message
from flwr.common.constant import ErrorCode
from flwr.common.logger import log
from flwr.supercore import heartbeat
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.run import RunNotRunningException
from flwr.supernode import fleet_http_connection

from turnout.engines.flower.chunks import INTERRUPTED, as_single_object, fetch_message, in_order
from turnout.engines.flower.retries import stop_if_unauthorized

POLL = 0.05
"""Seconds between two requests for messages."""

HEARTBEAT = 10
"""Seconds between heartbeats of a node, the least that Flower allows. After two of them a killed node may connect again."""

DISCONNECTED = (httpx.HTTPStatusError, RunNotRunningException, *INTERRUPTED)
"""The errors of a node whose server or SuperLink was killed."""


class Refused(Exception):
    """The SuperLink refuses a node."""


def stop_at_sigterm() -> None:
    """Let SIGTERM raise `SystemExit`: a node that ends without closing its connection is refused for a while after it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def refuse(code: int, message: str | None = None, **_) -> NoReturn:
    """Raise `Refused` where Flower ends the process.

    Args:
        code: Exit code.
        message: Reason.
    """
    raise Refused((message or f"exit code {code}").strip())


def not_accepted(*_) -> NoReturn:
    """Fail a heartbeat where Flower interrupts the process; the next request for messages tells why."""
    raise heartbeat.HeartbeatFailure


def retrying():
    """Return Flower's rule for failing requests, without its interruption of the process where the SuperLink refuses the node."""
    invoker = make_simple_http_retry_invoker()
    invoker.should_giveup = stop_if_unauthorized(invoker.should_giveup)
    return invoker


@contextmanager
def connected(address: str, authority: Path, keys: tuple) -> Iterator[tuple]:
    """Connect the node with `keys` to the SuperLink at `address`, and yield Flower's functions to receive and send messages.

    Args:
        address: HOST:PORT of the SuperLink.
        authority: File of the authority's certificate.
        keys: Private and public key of the node.
    """
    own_os = SimpleNamespace(getpid=os.getpid, kill=not_accepted)
    for name, value in {"flwr_exit": refuse, "os": own_os, "make_simple_http_retry_invoker": retrying}.items():
        fleet_http_connection.__dict__[name] = value
    for module in (fleet_http_connection, heartbeat):
        vars(module)["HEARTBEAT_DEFAULT_INTERVAL"] = HEARTBEAT
    with fleet_http_connection.http_request_response(address, False, authority.read_bytes(), keys) as connection:
        yield connection


def answer(app: Callable[[Message, Context], Message], context: Context, connection: tuple, head: Message, tree) -> None:
    """Fetch a message, and send the reply of `app`.

    Args:
        app: Returns the reply to a message.
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
        tree, objects = get_object_tree(reply), get_all_nested_objects(reply)
        missing, session = send(reply, tree, 0.0)
        for name in in_order(tree):
            if name in missing:
                push_object(reply.metadata.run_id, session, name, objects[name].deflate())
