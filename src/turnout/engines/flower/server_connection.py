"""The server's end of a Flower connection: a process that is its own ServerApp.

This module and its neighbours use parts of Flower 1.41 and 1.42 that are not documented.
"""

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import httpx
from flwr.app.message import remove_content_from_message
from flwr.cli.build import build_fab_from_files
from flwr.common.serde import fab_to_proto, message_to_proto, run_from_proto
from flwr.proto.control_pb2 import StartRunRequest
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullTaskInputRequest,
    PushAppMessagesRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid

from turnout.core.errors import UserError
from turnout.engines.flower.batches import BatchGrid, call_all
from turnout.engines.flower.chunks import as_single_object, in_order
from turnout.engines.flower.retries import stop_if_unauthorized

POLL = 0.05
"""Seconds between two requests for the run."""

RUN_TIMEOUT = 120.0
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


class SingleObjectGrid(BatchGrid):
    """Sends small messages as one object each, and many objects in one request."""

    def push_messages(self, messages):
        return super().push_messages([as_single_object(message) for message in messages])

    def _try_push_messages(self, run_id, messages):
        trees = [get_object_tree(message) for message in messages]
        announcement = PushAppMessagesRequest(
            messages_list=[message_to_proto(remove_content_from_message(message)) for message in messages],
            message_object_trees=trees,
        )
        announced = self._runtime_client.PushMessages(announcement)
        objects = {name: part for message in messages for name, part in get_all_nested_objects(message).items()}
        missing = {*announced.objects_to_push}
        pushes = (
            PushObjectRequest(
                node=self.node,
                run_id=run_id,
                session_id=announced.session_id,
                object_id=name,
                object_content=objects[name].deflate(),
            )
            for name in in_order(*trees)
            if name in missing
        )
        for push, answer in call_all(self, "PushObject", pushes):
            if not answer.stored:
                raise ObjectPushError(push.object_id, run_id, announced.session_id)
        return [*announced.message_ids]


def start_run(server: Server) -> str:
    """Start a run at the SuperLink, and return the token of its server; `UserError` if that takes too long."""
    content, _ = build_fab_from_files({"pyproject.toml": PYPROJECT, "run.py": b"app = None\n"})
    secret, end = SecretHeader(server.secret), time.monotonic() + RUN_TIMEOUT
    request = AcquireTaskRequest(supported_task_types=["flwr-serverapp"])
    interceptors = [secret, RuntimeVersionHttpInterceptor(component_name="SuperExec")]
    try:
        with ControlHttpClient.from_server_address(**server.options, interceptors=[secret]) as control:
            control._client.timeout = RUN_TIMEOUT
            run_id = control.StartRun(StartRunRequest(fab=fab_to_proto(Fab(sha256(content).hexdigest(), content, {})))).run_id
        with RuntimeHttpClient.from_server_address(**server.options, interceptors=interceptors) as runtime:
            while not ((task := runtime.AcquireTask(request)).token and task.task.run_id == run_id):
                if time.monotonic() > end:
                    raise UserError(
                        f"the SuperLink at {server.address} gave the server no run within {RUN_TIMEOUT:g} s: start again"
                    )
                time.sleep(POLL)
    except httpx.TransportError as error:
        raise UserError(f"the SuperLink at {server.address} did not start a run ({error!r}): start again") from None
    return task.token


@contextmanager
def flower_run(server: Server) -> Iterator[HttpGrid]:
    """Start a run at the SuperLink, yield its grid to the caller, which is its ServerApp, and end the run."""
    token, secret = start_run(server), SecretHeader(server.secret)
    grid = SingleObjectGrid(server.address, False, server.options["root_certificates"], token=token)
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
