"""The ends of a Flower connection: a node that lives on between messages, and a server that is its own ServerApp.

Stock SuperNodes start a process for each message, which costs seconds. What is used here instead is not documented by Flower and
belongs to its version 1.41; nothing else but `superlink` uses such parts.
"""

import functools
import signal
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from logging import WARNING
from pathlib import Path
from typing import NoReturn

import flwr.superlink.grid.http_grid as http_grid
import httpx
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.app import Context, Error, Message, RecordDict
from flwr.app.message import make_message
from flwr.cli.build import build_fab_from_files
from flwr.clientapp import ClientApp
from flwr.common.constant import PUBLIC_KEY_ALREADY_IN_USE_MESSAGE, ErrorCode
from flwr.common.logger import log
from flwr.common.serde import fab_to_proto, message_from_proto, run_from_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore import heartbeat
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectPushError
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid
from flwr.supernode import fleet_http_connection
from google.protobuf.message import DecodeError

from turnout.engines.flower.parts import fetched, push_parts, slim
from turnout.errors import UserError

POLL = 0.05
"""Seconds between two looks for messages."""

PATIENCE = 60.0
"""Seconds within which the SuperLink has to hand out a run that was started."""

AWAY = 120.0
"""Seconds for which a server waits for a SuperLink that is gone; a run is kept for a silent server for less."""

KNOCKING = 60.0
"""Seconds for which a node that is refused tries again."""

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

HALVED = (ObjectPullError, ObjectPushError)
"""What becomes of a message while whose parts are sent somebody is killed."""

LOST = (httpx.HTTPStatusError, RunNotRunningException, *HALVED)
"""What a node meets whose server or SuperLink was killed."""

MALFORMED = (ValueError, KeyError, TypeError, DecodeError)
"""What is met in a message that is none of Flower's."""


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
    """Let the nodes with these keys, in OpenSSH's format, join, if they may not already."""
    with ControlHttpClient.from_server_address(**server.options, interceptors=[Knock(server.secret)]) as control:
        for key in public_keys:
            try:
                control.RegisterNode(RegisterNodeRequest(public_key=public_key_to_bytes(load_ssh_public_key(key))))
            except httpx.HTTPStatusError as error:
                if PUBLIC_KEY_ALREADY_IN_USE_MESSAGE not in error.response.text:
                    raise


class SlimGrid(HttpGrid):
    """Sends small messages in one part."""

    def push_messages(self, messages):
        return super().push_messages([slim(message) for message in messages])


@contextmanager
def joined(server: Server) -> Iterator[HttpGrid]:
    """Start a run, be its ServerApp inside, and end it."""
    http_grid.__dict__["push_objects"] = push_parts
    content, _ = build_fab_from_files({"pyproject.toml": PYPROJECT, "run.py": b"app = None\n"})
    knock = Knock(server.secret)
    with ControlHttpClient.from_server_address(**server.options, interceptors=[knock]) as control:
        run_id = control.StartRun(StartRunRequest(fab=fab_to_proto(Fab(sha256(content).hexdigest(), content, {})))).run_id
    wanted = AcquireTaskRequest(supported_task_types=["flwr-serverapp"])
    versioned = [knock, RuntimeVersionHttpInterceptor(component_name="SuperExec")]
    with RuntimeHttpClient.from_server_address(**server.options, interceptors=versioned) as runtime:
        end = time.monotonic() + PATIENCE
        while not ((task := runtime.AcquireTask(wanted)).token and task.task.run_id == run_id):
            if time.monotonic() > end:
                raise UserError(f"the SuperLink at {server.address} gave the server no run within {PATIENCE:g} s: start again")
            time.sleep(POLL)
    grid = SlimGrid(server.address, False, server.options["root_certificates"], token=task.token)
    grid._retry_invoker.max_time = AWAY
    grid._retry_invoker.should_giveup = refused_at_once(grid._retry_invoker.should_giveup)
    grid._runtime_client._interceptors = (knock, *grid._runtime_client._interceptors)
    given = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = given.task_id, given.run.run_id, given.context.node_id
    grid.set_run(run_from_proto(given.run))
    heart = HeartbeatSender(beating(grid))
    heart.start()
    status = "failed"
    try:
        yield grid
        status = "completed"
    except (RunNotRunningException, httpx.HTTPStatusError) as error:
        raise UserError(
            f"the SuperLink at {server.address} was away too long and gave the run up: start again to go on"
        ) from error
    except httpx.TransportError as error:
        grid._retry_invoker.max_time = 0.0
        raise UserError(
            f"no SuperLink answered at {server.address} for {AWAY:g} s ({error}): start it, and then this again to go on"
        ) from error
    finally:
        heart.stop()
        with suppress(RunNotRunningException, httpx.HTTPStatusError, httpx.TransportError):
            grid._runtime_client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=""))
        grid.close()


def refused_at_once(should_giveup: Callable[[Exception], bool]) -> Callable[[Exception], bool]:
    """Return what says of an error whether it is final: of a server that the SuperLink no longer knows it is.

    Flower interrupts the process instead, which may be writing the results of a run that has been played.
    """

    def final(error: Exception) -> bool:
        gone = isinstance(error, httpx.HTTPStatusError) and error.response.status_code == httpx.codes.UNAUTHORIZED
        return gone or should_giveup(error)

    return final


def beating(grid: HttpGrid) -> Callable[[], bool]:
    """Return what gives a sign of life of a run. That none is taken any more is no failure here; the next request says why."""
    client = grid._runtime_client

    def beat() -> bool:
        with suppress(RunNotRunningException, httpx.HTTPStatusError):
            try:
                client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
            except httpx.TransportError:
                return False
        return True

    return beat


class Refused(Exception):
    """The SuperLink does not let a node in."""


def refuse(code: int, message: str | None = None, **_) -> NoReturn:
    """Take the place of what ends a process in Flower."""
    raise Refused((message or f"exit code {code}").strip())


def replies(grid: HttpGrid, asked: set[str]) -> Iterator[Message]:
    """Fetch the replies that are there to the messages with the ids `asked`, one after the other."""
    client, run = grid._runtime_client, grid.run.run_id
    pull = make_pull_object_fn_protobuf(client.PullObject, grid.node, run)
    found = client.PullMessages(PullAppMessagesRequest(message_ids=asked))
    for told, tree in zip(found.messages_list, found.message_object_trees, strict=True):
        head = message_from_proto(told)
        try:
            message = fetched(head, tree, pull)
        except (ObjectPullError, *MALFORMED) as error:
            why = str(error) if isinstance(error, ObjectPullError) else "it is no message of Flower's"
            message = make_message(head.metadata, error=Error(ErrorCode.MESSAGE_UNAVAILABLE, why))
        name = head.metadata.message_id
        client.ConfirmMessageReceived(ConfirmMessageReceivedRequest(node=grid.node, run_id=run, message_object_id=name))
        yield message


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
