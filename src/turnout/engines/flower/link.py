"""The ends of a Flower connection: a node that lives on between messages, and a server that is its own ServerApp.

Stock SuperNodes start a process for each message, which costs seconds. What is used here instead is not documented by Flower and
belongs to its version 1.41; nothing else but `superlink` uses such parts.
"""

import functools
import signal
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from logging import WARNING
from pathlib import Path

import flwr.superlink.grid.http_grid as http_grid
import httpx
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.app import Context, Error, Message, RecordDict
from flwr.app.message import make_message
from flwr.cli.build import build_fab_from_files
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.common.logger import log
from flwr.common.serde import fab_to_proto, message_from_proto, run_from_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PushTaskOutputRequest,
)
from flwr.supercore import heartbeat
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid
from flwr.supernode import fleet_http_connection

from turnout.engines.flower.parts import fetched, push_parts

POLL = 0.05
"""Seconds between two looks for messages."""

HEARTBEAT = 10
"""Seconds between signs of life of a node, the fewest that Flower allows. After two of them a killed one may come again."""

PYPROJECT = b"""[project]
name = "turnout"
version = "0.0.1"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "local"
[tool.flwr.app.components]
serverapp = "run:app"
clientapp = "run:app"
"""
"""The app that Flower wants for a run. It holds no code, and nodes execute none that is sent to them."""

HEADER = "x-turnout-secret"
"""Carries the word that the guard of `superlink` wants for all but the nodes' own paths."""


@dataclass(frozen=True)
class Server:
    """Where a SuperLink is, the certificate of its authority, and the secret word of its guard."""

    address: str
    authority: Path
    secret: str

    @property
    def trusted(self) -> ssl.SSLContext:
        """Who is believed to be the SuperLink."""
        return ssl.create_default_context(cafile=str(self.authority))

    @property
    def options(self) -> dict:
        return {"server_address": self.address, "insecure": False, "root_certificates": self.authority.read_bytes()}


class Knock:
    """Adds the secret word to every request."""

    def __init__(self, secret: str):
        self.secret = secret

    def intercept(self, context, call_next) -> httpx.Response:
        context.request.headers[HEADER] = self.secret
        return call_next(context)


def register(server: Server, public_keys: list[bytes]) -> None:
    """Let the nodes with these keys, in OpenSSH's format, join."""
    with ControlHttpClient.from_server_address(**server.options, interceptors=[Knock(server.secret)]) as control:
        for key in public_keys:
            control.RegisterNode(RegisterNodeRequest(public_key=public_key_to_bytes(load_ssh_public_key(key))))


@contextmanager
def joined(server: Server) -> Iterator[HttpGrid]:
    """Start a run, be its ServerApp inside, and end it."""
    http_grid.__dict__["push_objects"] = push_parts
    content, _ = build_fab_from_files({"pyproject.toml": PYPROJECT, "run.py": b"app = None\n"})
    knock = Knock(server.secret)
    with ControlHttpClient.from_server_address(**server.options, interceptors=[knock]) as control:
        run_id = control.StartRun(StartRunRequest(fab=fab_to_proto(Fab(sha256(content).hexdigest(), content, {})))).run_id
    versioned = [knock, RuntimeVersionHttpInterceptor(component_name="SuperExec")]
    with RuntimeHttpClient.from_server_address(**server.options, interceptors=versioned) as runtime:
        while True:
            task = runtime.AcquireTask(AcquireTaskRequest(supported_task_types=["flwr-serverapp"]))
            if task.token and task.task.run_id == run_id:
                break
            time.sleep(POLL)
    grid = HttpGrid(server.address, False, server.options["root_certificates"], token=task.token)
    grid._runtime_client._interceptors = (knock, *grid._runtime_client._interceptors)
    given = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = given.task_id, given.run.run_id, given.context.node_id
    grid.set_run(run_from_proto(given.run))
    heart = HeartbeatSender(make_task_heartbeat_fn_http(grid._runtime_client))
    heart.start()
    status = "failed"
    try:
        yield grid
        status = "completed"
    finally:
        heart.stop()
        grid._runtime_client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=""))
        grid.close()


def replies(grid: HttpGrid, asked: set[str]) -> Iterator[Message]:
    """Fetch the replies that are there to the messages with the ids `asked`, one after the other."""
    client, run = grid._runtime_client, grid.run.run_id
    pull = make_pull_object_fn_protobuf(client.PullObject, grid.node, run)
    found = client.PullMessages(PullAppMessagesRequest(message_ids=asked))
    for told, tree in zip(found.messages_list, found.message_object_trees, strict=True):
        head = message_from_proto(told)
        try:
            message = fetched(head, tree, pull)
        except ObjectPullError as error:
            message = make_message(head.metadata, error=Error(ErrorCode.MESSAGE_UNAVAILABLE, str(error)))
        name = head.metadata.message_id
        client.ConfirmMessageReceived(ConfirmMessageReceivedRequest(node=grid.node, run_id=run, message_object_id=name))
        yield message


def serve(app: ClientApp, address: str, authority: Path, keys: tuple) -> None:
    """Answer messages with `app` until stopped, as the node with `keys` of the SuperLink at `address`."""
    # Stopped at once it would not say goodbye, and be refused for a while when it comes again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for module in (fleet_http_connection, heartbeat):
        vars(module)["HEARTBEAT_DEFAULT_INTERVAL"] = HEARTBEAT
    with fleet_http_connection.http_request_response(address, False, authority.read_bytes(), keys) as connection:
        node_id, receive, *_ = connection
        TaskIdentity.node_id = node_id
        context = Context(0, node_id, {}, RecordDict(), {})
        while True:
            got = receive()
            if got is None:
                time.sleep(POLL)
                continue
            try:
                answer(app, context, connection, *got)
            except (httpx.HTTPStatusError, ObjectPullError, ValueError, KeyError, TypeError) as error:
                log(WARNING, "a message could not be answered: %s", error)


def answer(app: ClientApp, context: Context, connection, head: Message, tree) -> None:
    """Fetch a message, and send what `app` replies."""
    _, _, send, _, _, pull_object, push_object, confirm = connection
    run, number = head.metadata.run_id, head.metadata.message_id
    TaskIdentity.run_id, TaskIdentity.task_id = run, 0
    message = fetched(head, tree, functools.partial(pull_object, run))
    confirm(run, number)
    try:
        reply = app(message, context)
    except Exception as error:
        reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, repr(error)), reply_to=message)
    with no_object_id_recompute():
        reply.metadata.__dict__["_message_id"] = reply.object_id
        missing, session = send(reply, get_object_tree(reply), 0.0)
        nested = get_all_nested_objects(reply)
        push_parts(nested, functools.partial(push_object, run, session), object_ids_to_push=missing)
