"""The server's end of a Flower connection: a process that is its own ServerApp.

What is used here is not documented by Flower and belongs to its version 1.41; nothing else but `node`, `parts` and `superlink`
uses such parts.
"""

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import flwr.superlink.grid.http_grid as http_grid
import httpx
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.app import Error, Message
from flwr.app.message import make_message
from flwr.cli.build import build_fab_from_files
from flwr.common.constant import PUBLIC_KEY_ALREADY_IN_USE_MESSAGE, ErrorCode
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
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid

from turnout.core.errors import UserError
from turnout.engines.flower.chunks import MALFORMED, fetched, push_parts, slim

POLL = 0.05
"""Seconds between two looks for the run."""

PATIENCE = 60.0
"""Seconds within which the SuperLink has to hand out a run that was started."""

AWAY = 120.0
"""Seconds for which a server waits for a SuperLink that is gone; a run is kept for a silent server for less."""

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
