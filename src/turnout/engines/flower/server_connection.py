"""The server's end of a Flower connection: a process that is its own ServerApp.

This module uses parts of Flower 1.41 that are not documented; besides it only `node_connection`, `chunks` and `superlink` do.
"""

import ssl
import time
from collections.abc import Callable, Generator, Iterator
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
from turnout.engines.flower.chunks import MALFORMED, Limited, as_single_object, fetch_in_steps, push_one_by_one
from turnout.engines.flower.retries import stop_if_unauthorized

POLL = 0.05
"""Seconds between two requests for the run."""

RUN_TIMEOUT = 60.0
"""Seconds within which the SuperLink must hand out a run that was started."""

RECONNECT_TIMEOUT = 120.0
"""Seconds for which a server tries to reach the SuperLink again; the SuperLink keeps the run of a silent server for less."""

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
"""The app that Flower requires for a run. It has no code, and nodes execute none that is sent to them."""

SECRET_HEADER = "x-turnout-secret"
"""The HTTP header with the secret that the guard in `superlink` requires on all paths but those of nodes."""


@dataclass(frozen=True)
class Server:
    """How a server reaches a SuperLink.

    Args:
        address: Host and port of the SuperLink.
        authority: The certificate of the authority that signed the SuperLink's.
        secret: The secret of the SuperLink's guard.
    """

    address: str
    authority: Path
    secret: str

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """The context that trusts this authority alone."""
        return ssl.create_default_context(cafile=str(self.authority))

    @property
    def options(self) -> dict:
        """The options of Flower's HTTP clients."""
        return {"server_address": self.address, "insecure": False, "root_certificates": self.authority.read_bytes()}


class SecretHeader:
    """Adds the secret to every request."""

    def __init__(self, secret: str):
        self.secret = secret

    def intercept(self, context, call_next) -> httpx.Response:
        context.request.headers[SECRET_HEADER] = self.secret
        return call_next(context)


def register(server: Server, public_keys: list[bytes]) -> None:
    """Admit the nodes with these public keys, in OpenSSH's format; keys that are admitted already are skipped.

    Args:
        server: The SuperLink.
        public_keys: Public keys in OpenSSH's format.
    """
    with ControlHttpClient.from_server_address(**server.options, interceptors=[SecretHeader(server.secret)]) as control:
        for key in public_keys:
            try:
                control.RegisterNode(RegisterNodeRequest(public_key=public_key_to_bytes(load_ssh_public_key(key))))
            except httpx.HTTPStatusError as error:
                if PUBLIC_KEY_ALREADY_IN_USE_MESSAGE not in error.response.text:
                    raise


class SingleObjectGrid(HttpGrid):
    """Sends small messages as one object each."""

    def push_messages(self, messages):
        return super().push_messages([as_single_object(message) for message in messages])


@contextmanager
def flower_run(server: Server) -> Iterator[HttpGrid]:
    """Start a run at the SuperLink, yield its grid to the caller, which is its ServerApp, and end the run."""
    http_grid.__dict__["push_objects"] = push_one_by_one
    content, _ = build_fab_from_files({"pyproject.toml": PYPROJECT, "run.py": b"app = None\n"})
    secret = SecretHeader(server.secret)
    with ControlHttpClient.from_server_address(**server.options, interceptors=[secret]) as control:
        run_id = control.StartRun(StartRunRequest(fab=fab_to_proto(Fab(sha256(content).hexdigest(), content, {})))).run_id
    request = AcquireTaskRequest(supported_task_types=["flwr-serverapp"])
    interceptors = [secret, RuntimeVersionHttpInterceptor(component_name="SuperExec")]
    with RuntimeHttpClient.from_server_address(**server.options, interceptors=interceptors) as runtime:
        end = time.monotonic() + RUN_TIMEOUT
        while not ((task := runtime.AcquireTask(request)).token and task.task.run_id == run_id):
            if time.monotonic() > end:
                raise UserError(f"the SuperLink at {server.address} gave the server no run within {RUN_TIMEOUT:g} s: start again")
            time.sleep(POLL)
    grid = SingleObjectGrid(server.address, False, server.options["root_certificates"], token=task.token)
    grid._retry_invoker.max_time = RECONNECT_TIMEOUT
    grid._retry_invoker.should_giveup = stop_if_unauthorized(grid._retry_invoker.should_giveup)
    grid._runtime_client._interceptors = (secret, *grid._runtime_client._interceptors)
    task_input = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
    TaskIdentity.task_id, TaskIdentity.run_id = task_input.task_id, task_input.run.run_id
    TaskIdentity.node_id = task_input.context.node_id
    grid.set_run(run_from_proto(task_input.run))
    heartbeat = HeartbeatSender(heartbeat_of(grid))
    heartbeat.start()
    status = "failed"
    try:
        yield grid
        status = "completed"
    except (RunNotRunningException, httpx.HTTPStatusError) as error:
        if isinstance(error, httpx.HTTPStatusError) and error.response.is_server_error:
            raise UserError(
                f"the SuperLink at {server.address} fails with status {error.response.status_code}: look into its log and "
                "whether its disk is full, then start again to continue"
            ) from error
        raise UserError(
            f"the SuperLink at {server.address} was away too long and ended the run: start again to continue"
        ) from error
    except httpx.TransportError as error:
        grid._retry_invoker.max_time = 0.0
        raise UserError(
            f"no SuperLink answered at {server.address} for {RECONNECT_TIMEOUT:g} s ({error}): start it, then start this again"
        ) from error
    finally:
        heartbeat.stop()
        with suppress(RunNotRunningException, httpx.HTTPStatusError, httpx.TransportError):
            grid._runtime_client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=""))
        grid.close()


def heartbeat_of(grid: HttpGrid) -> Callable[[], bool]:
    """Return the function that sends a heartbeat of a run. A run that has ended is no failure here: the next request says so."""
    client = grid._runtime_client

    def send() -> bool:
        with suppress(RunNotRunningException, httpx.HTTPStatusError):
            try:
                client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
            except httpx.TransportError:
                return False
        return True

    return send


def pull_replies(grid: HttpGrid, asked: set[str], limit: int) -> list[tuple[str, Generator[Message | bool]]]:
    """Return the id of the message and an iterator for each reply that has arrived to the messages with the ids `asked`.

    Each step of it is one request, and yields whether an object of the reply has arrived; the last one yields the reply. An
    iterator that is closed before gives the reply up.

    Args:
        grid: Connection to the SuperLink.
        asked: Ids of the messages.
        limit: Most bytes of a reply's body.
    """
    response = grid._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=asked))
    pairs = zip(response.messages_list, response.message_object_trees, strict=True)
    return [(proto.metadata.reply_to_message_id, pull_in_steps(grid, proto, tree, limit)) for proto, tree in pairs]


def pull_in_steps(grid: HttpGrid, proto, tree, limit: int) -> Generator[Message | bool]:
    """Fetch one reply in steps, see `pull_replies`.

    Args:
        grid: Connection to the SuperLink.
        proto: The reply without its content.
        tree: Tree of the objects of the reply.
        limit: Most bytes of the reply's body.
    """
    client, run = grid._runtime_client, grid.run.run_id
    pull = Limited(make_pull_object_fn_protobuf(client.PullObject, grid.node, run), limit)
    head = message_from_proto(proto)
    try:
        message = yield from fetch_in_steps(head, tree, pull)
    except (ObjectPullError, *MALFORMED) as error:
        known = isinstance(error, ObjectPullError) or pull.left < 0
        reason = str(error) if known else "it is no message of Flower's"
        message = make_message(head.metadata, error=Error(ErrorCode.MESSAGE_UNAVAILABLE, reason))
    finally:
        name = head.metadata.message_id
        client.ConfirmMessageReceived(ConfirmMessageReceivedRequest(node=grid.node, run_id=run, message_object_id=name))
    yield message
