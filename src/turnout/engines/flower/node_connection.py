"""A node's end of a Flower connection.

Flower's own SuperNodes start a process for each message, which takes seconds, and its connection for nodes imports a web server,
which takes 13 MiB. This module uses parts of Flower 1.41 and 1.42 that are not documented.
"""

import random
import signal
import sys
from base64 import b64encode
from collections.abc import Callable
from logging import ERROR, INFO, WARNING
from pathlib import Path
from threading import Event
from typing import Any

import httpx
from flwr.app import Context, Error, Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import MAX_RETRY_DELAY, TIMESTAMP_HEADER, ErrorCode
from flwr.common.logger import log
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest, PullMessagesRequest, PushMessagesRequest
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree, PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.date import now
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectPushError, ObjectUnavailableError
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
from flwr.supercore.run import RunNotRunningException
from flwr.supernode.fleet_http_client import FleetHttpClient

from turnout.core.background import in_background
from turnout.engines.flower.chunks import INTERRUPTED, as_single_object, fetch_message, in_order

POLL = 0.05
"""Seconds between two requests for messages."""

HEARTBEAT = 10
"""Seconds after which a node without heartbeats may be gone, the least that Flower allows. After two of them a killed node may
connect again."""

BETWEEN_HEARTBEATS = (3.5, 4.5)
"""Least and most seconds between two heartbeats, so that many nodes do not send theirs at once."""

BUSY = {httpx.codes.BAD_GATEWAY, httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.GATEWAY_TIMEOUT}
"""The statuses after which a request is sent again."""

DISCONNECTED = (httpx.HTTPStatusError, RunNotRunningException, *INTERRUPTED)
"""The errors of a node whose server or SuperLink was killed."""


class Refused(Exception):
    """The SuperLink refuses a node."""


def stop_at_sigterm() -> None:
    """Let SIGTERM raise `SystemExit`: a node that ends without closing its connection is refused for a while after it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


class SignedRequests:
    """Adds a node's public key and its signature of the time to each request.

    Args:
        keys: Private and public key of the node.
    """

    def __init__(self, keys: tuple):
        self._private, self.public = keys[0], public_key_to_bytes(keys[1])

    def intercept(self, context, call_next) -> httpx.Response:
        time = now().isoformat()
        signature = sign_message(self._private, time.encode())
        context.request.headers.update(
            {
                FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(self.public).decode(),
                TIMESTAMP_HEADER: time,
                FLEET_HTTP_SIGNATURE_HEADER: b64encode(signature).decode(),
            }
        )
        return call_next(context)


class Connection:
    """The connection of one node, open inside `with`. Requests that do not reach the SuperLink are sent again until they do.

    Args:
        address: HOST:PORT of the SuperLink.
        authority: File of the authority's certificate.
        keys: Private and public key of the node.

    Raises:
        Refused: At the beginning, if the SuperLink does not accept the node.
    """

    def __init__(self, address: str, authority: Path, keys: tuple):
        self._signed, self._closed = SignedRequests(keys), Event()
        self._client = FleetHttpClient.from_server_address(address, False, authority.read_bytes(), [self._signed])
        self.node = Node()

    def __enter__(self) -> "Connection":
        try:
            request = ActivateNodeRequest(public_key=self._signed.public, heartbeat_interval=HEARTBEAT)
            self.node = Node(node_id=self._call(self._client.ActivateNode, request).node_id)
        except (httpx.HTTPError, RunNotRunningException) as error:
            self._client.close()
            raise Refused(said_by(error)) from error
        in_background(self._send_heartbeats)
        return self

    def __exit__(self, kind, error, trace) -> bool:
        """Tell the SuperLink that the node leaves. A lost connection is logged, and is no error: the node connects again."""
        if self._closed.is_set():
            return False
        self._closed.set()
        try:
            self._client.DeactivateNode(DeactivateNodeRequest(node_id=self.node.node_id))
        except httpx.HTTPError as failure:
            log(INFO, "the SuperLink was not told that this node leaves: %r", failure)
        self._client.close()
        lost = isinstance(error, httpx.HTTPError | RunNotRunningException)
        if lost:
            log(ERROR, "%s", said_by(error))
        return lost

    def receive(self) -> tuple[Message, ObjectTree] | None:
        """Return the head and the tree of a message, or None if there is none."""
        response = self._call(self._client.PullMessages, PullMessagesRequest(node=self.node))
        if not response.messages_list:
            return None
        return message_from_proto(response.messages_list[0]), response.message_object_trees[0]

    def announce(self, reply: Message, tree: ObjectTree) -> tuple[set[str], str]:
        """Announce a reply, and return which of its objects the SuperLink wants, and the session in which to send them."""
        head = message_to_proto(remove_content_from_message(reply) if reply.has_content() else reply)
        request = PushMessagesRequest(node=self.node, messages_list=[head], message_object_trees=[tree])
        response = self._call(self._client.PushMessages, request)
        return {*response.objects_to_push}, response.session_id

    def pull(self, run: int, name: str) -> bytes:
        """Return the object with an id; `ObjectUnavailableError` if it has not come yet, `ObjectPullError` if it never will."""
        response = self._call(self._client.PullObject, PullObjectRequest(node=self.node, run_id=run, object_id=name))
        if not response.object_found:
            raise ObjectPullError(name, "the object could not be found.")
        if not response.object_available:
            raise ObjectUnavailableError(name)
        return response.object_content

    def push(self, run: int, session: str, name: str, content: bytes) -> None:
        """Send an object; `ObjectPushError` if the SuperLink does not take it."""
        names = {"run_id": run, "session_id": session, "object_id": name}
        request = PushObjectRequest(node=self.node, object_content=content, **names)
        if not self._call(self._client.PushObject, request).stored:
            raise ObjectPushError(name, run, session)

    def confirm(self, run: int, name: str) -> None:
        """Tell the SuperLink that a message has arrived."""
        request = ConfirmMessageReceivedRequest(node=self.node, run_id=run, message_object_id=name)
        self._call(self._client.ConfirmMessageReceived, request)

    def _call(self, call: Callable, request: Any) -> Any:
        """Return the answer to a request, which is sent again after a pause while the SuperLink is away."""
        longest = 1.0
        while True:
            try:
                return call(request)
            except httpx.HTTPError as error:
                if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == httpx.codes.FORBIDDEN:
                    raise RunNotRunningException from error
                if not is_passing(error):
                    raise
                pause = random.uniform(0, longest)
                log(WARNING, "no answer of the SuperLink, which is asked again in %.1f s: %r", pause, error)
                if self._closed.wait(pause):
                    raise
                longest = min(2 * longest, MAX_RETRY_DELAY)

    def _send_heartbeats(self) -> None:
        """Send heartbeats until closed; the next request for messages tells why one fails."""
        request = SendNodeHeartbeatRequest(node=self.node, heartbeat_interval=HEARTBEAT)
        while not self._closed.wait(random.uniform(*BETWEEN_HEARTBEATS)):
            try:
                self._client.SendNodeHeartbeat(request)
            except (httpx.HTTPError, RuntimeError) as error:
                log(INFO, "a heartbeat failed: %r", error)


def is_passing(error: httpx.HTTPError) -> bool:
    """Whether a request that failed may succeed later: the SuperLink is away or busy, and its certificate is not at fault."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in BUSY
    return isinstance(error, httpx.TransportError) and not any(
        word in str(error).lower() for word in ("certificate", "ssl", "tls")
    )


def said_by(error: BaseException) -> str:
    """Return the SuperLink's reason for an error, or the error itself."""
    if isinstance(error.__cause__, httpx.HTTPStatusError):
        error = error.__cause__
    if isinstance(error, httpx.HTTPStatusError):
        try:
            content = error.response.json()
        except ValueError:
            content = None
        if isinstance(content, dict) and isinstance(content.get("detail"), str):
            return content["detail"]
    return str(error)


def answer(app: Callable[[Message, Context], Message], context: Context, connection: Connection, head: Message, tree) -> None:
    """Fetch a message, and send the reply of `app`.

    Args:
        app: Returns the reply to a message.
        context: Flower's context of the app.
        connection: The connection of the node.
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


def fetch(connection: Connection, head: Message, tree) -> Message:
    """Return the whole message with this `head` and this `tree` of objects.

    Args:
        connection: The connection of the node.
        head: The message without its content.
        tree: Tree of the objects of the message.
    """
    run, number = head.metadata.run_id, head.metadata.message_id
    message = fetch_message(head, tree, lambda name: connection.pull(run, name))
    connection.confirm(run, number)
    return message


def send_reply(connection: Connection, reply: Message) -> None:
    """Send a reply.

    Args:
        connection: The connection of the node.
        reply: The reply.
    """
    reply = as_single_object(reply)
    with no_object_id_recompute():
        reply.metadata.__dict__["_message_id"] = reply.object_id
        tree, objects = get_object_tree(reply), get_all_nested_objects(reply)
        missing, session = connection.announce(reply, tree)
        for name in in_order(tree):
            if name in missing:
                connection.push(reply.metadata.run_id, session, name, objects[name].deflate())
