"""A local federation with production TLS and node keys: a SuperLink and node processes."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import httpx

from turnout.core.errors import UserError
from turnout.core.interrupts import uninterrupted_children
from turnout.engines.encryption import write_key
from turnout.engines.flower import keys
from turnout.engines.flower.registry import Registry
from turnout.engines.flower.server_connection import SECRET_HEADER, Server
from turnout.experiment.config import read
from turnout.federation.handshake import build_for_federation
from turnout.io.atomic import private_opener
from turnout.io.ports import free_port

SUM_KEY = "sum.key"
"""Name of the file of the members' key for encrypted sums."""

RESTART_PAUSE = 5.0
"""Seconds between two starts of a process that ends: the SuperLink refuses a killed node until it has noticed."""

POLL = 0.1
"""Seconds between two requests to a SuperLink that starts."""

SUPERVISION_PAUSE = 0.2
"""Seconds between two checks for processes that have ended."""

START_TIMEOUT = 120.0
"""Seconds within which the SuperLink must answer."""


class Federation:
    """The processes of a federation on the loopback interface, with their logs, keys and states in `folder`.

    Args:
        folder: Folder of certificates, keys, states and logs.
        file: File of the configuration.
        clients: Number of clients.
        data: Folder with data files; None for the default folders.
        processes: Number of node processes; None for one for each client.
    """

    def __init__(self, folder: Path, file: Path, clients: int, data: Path | None, processes: int | None = None):
        self.folder, self.file, self.clients, self.data = folder, file, clients, data
        self.processes = min(processes or clients, clients)
        self.children: dict[str, subprocess.Popen] = {}
        self._commands: dict[str, list[str]] = {}
        self._earliest_restart: dict[str, float] = {}
        new = not (folder / keys.AUTHORITY).exists()
        folder.mkdir(parents=True, exist_ok=True)
        if new:
            keys.write_all(folder, ["localhost"], clients)
        self.server = Server(f"127.0.0.1:{free_port()}", folder / keys.AUTHORITY, (folder / keys.SECRET).read_text())

    def start(self) -> None:
        """Start the SuperLink and the nodes."""
        self.start_registered_superlink()
        bounds = [k * self.clients // self.processes for k in range(self.processes + 1)]
        for first, end in pairwise(bounds):
            self.start_nodes(range(first, end)) if end - first > 1 else self.start_node(first)

    def start_registered_superlink(self) -> None:
        """Start the SuperLink with an empty database; the states of nodes are kept."""
        for file in self.folder.glob("superlink.db*"):
            file.unlink()
        self.start_superlink()

    def start_superlink(self) -> None:
        """Start the SuperLink, and wait until it answers."""
        host, _, port = self.server.address.rpartition(":")
        self.run("superlink", *superlink_command(self.folder, host, int(port)))
        try:
            wait_until_healthy(self.server, lambda: self.children["superlink"].poll() is not None)
        except UserError as error:
            raise UserError(f"{error}: see {self.folder / 'superlink.log'}") from None

    def start_node(self, client: int) -> str:
        """Start the node of a client, and return the name of the process."""
        private = ("--key", self.key(client), "--states", self.folder / f"states-{client}")
        return self._start_node(f"node-{client}", "--client", client, *private)

    def start_nodes(self, clients: range) -> str:
        """Start the nodes of several clients in one process, and return the name of the process."""
        which = f"{clients[0]}-{clients[-1]}"
        return self._start_node(f"nodes-{which}", "--clients", which, "--key", self.folder, "--states", self.folder)

    def _start_node(self, name: str, *options) -> str:
        data = () if self.data is None else ("--data", self.data)
        key = self.folder / SUM_KEY
        data = (*data, "--sum-key", key) if key.exists() else data
        superlink = ("--superlink", self.server.address, "--authority", self.server.authority)
        return self.run(name, "turnout", "node", self.file, *options, *superlink, *data)

    def restart_ended(self) -> dict[str, int]:
        """Restart the processes that have ended, each at most once in `RESTART_PAUSE` seconds; return exit codes by name."""
        now, codes = time.monotonic(), {}
        for name, child in self.children.items():
            if child.poll() is not None and now >= self._earliest_restart.get(name, 0.0):
                self._earliest_restart[name], codes[name] = now + RESTART_PAUSE, child.returncode
                self._launch(name)
        return codes

    @contextmanager
    def supervised(self) -> Iterator[None]:
        """Restart processes that end, in a thread, since a server blocks while it waits for the SuperLink."""
        stopped = threading.Event()

        def supervise() -> None:
            while not stopped.wait(SUPERVISION_PAUSE):
                self.restart_ended()

        thread = threading.Thread(target=supervise, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def stop(self, names: list[str] | None = None) -> None:
        """Stop the processes with these names, or all."""
        children = [self.children.pop(name) for name in names or list(self.children)]
        for child in children:
            child.terminate()
        for child in children:
            if not ends_within(child, 10):
                child.kill()
                child.wait()
            child.stdin.close()

    def key(self, client: int) -> Path:
        """Return the file of the private key of a client's node."""
        return self.folder / f"node-{client}"

    def run(self, name: str, *command) -> str:
        """Start a module with its arguments as the process `name`, which ends with this process, and return the name."""
        self._commands[name] = [sys.executable, "-m", "turnout.federation.child_process", *map(str, command)]
        self._launch(name)
        return name

    def _launch(self, name: str) -> None:
        with open(self.folder / f"{name}.log", "ab", opener=private_opener) as log:
            options = {
                "stdin": subprocess.PIPE,
                "stdout": log,
                "stderr": subprocess.STDOUT,
                "env": environment(self.folder / "home" / name) | (share(self.processes) if name.startswith("node") else {}),
            }
            # The server ends its round with them before it ends them.
            with uninterrupted_children():
                new = subprocess.Popen(self._commands[name], **options)
        old, self.children[name] = self.children.get(name), new
        if old is not None:
            old.stdin.close()


def superlink_command(folder: Path, host: str, port: int) -> list[str]:
    """Return the module, with its arguments, of a guarded SuperLink whose certificates and database are in `folder`.

    Args:
        folder: Folder of certificates, keys, states and logs.
        host: Address at which the SuperLink listens.
        port: Port at which it listens.
    """
    options = {
        "host": host,
        "port": port,
        "database": folder / "superlink.db",
        "isolation": "process",
        "ssl-certfile": folder / keys.CERTIFICATE,
        "ssl-keyfile": folder / keys.KEY,
        "ssl-ca-certfile": folder / keys.AUTHORITY,
    }
    arguments = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    return ["turnout.engines.flower.superlink", str(folder / keys.SECRET), *arguments, "--enable-supernode-auth"]


def wait_until_healthy(server: Server, ended: Callable[[], bool]) -> int:
    """Wait until the SuperLink answers, and return the status; `UserError` if it does not answer or its process has `ended`.

    Args:
        server: The SuperLink.
        ended: Returns whether the process of the SuperLink has ended.
    """
    end = time.monotonic() + START_TIMEOUT
    while True:
        try:
            headers = {SECRET_HEADER: server.secret}
            return httpx.get(f"https://{server.address}/health", verify=server.ssl_context, headers=headers).status_code
        except httpx.TransportError as error:
            if ended() or time.monotonic() > end or "CERTIFICATE" in str(error):
                raise UserError(f"no SuperLink with these certificates answers at {server.address} ({error})") from None
        time.sleep(POLL)


def superlink_at(address: str, folder: Path, ended: Callable[[], bool] = lambda: False) -> Server:
    """Return the SuperLink at `address`, whose certificates and secret are in `folder`, once it answers.

    Args:
        address: HOST:PORT of the SuperLink.
        folder: Folder of certificates, keys, states and logs.
        ended: Returns whether the process of the SuperLink has ended.
    """
    keys.check_folder(folder)
    server = Server(address, folder / keys.AUTHORITY, (folder / keys.SECRET).read_text())
    if wait_until_healthy(server, ended) == httpx.codes.FORBIDDEN:
        raise UserError(f"the SuperLink at {address} has another secret than {folder}: give it the same folder")
    return server


def run_superlink(folder: Path, host: str, port: int) -> int:
    """Run a SuperLink that admits the nodes of the registry in `folder`, and return its exit code.

    Args:
        folder: Folder of certificates, keys, states and logs.
        host: Address at which the SuperLink listens.
        port: Port at which it listens.
    """
    keys.check_folder(folder)
    Registry.read(folder)
    command = [sys.executable, "-m", "turnout.federation.child_process", *superlink_command(folder, host, port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment(folder / "home")) as process:
        superlink_at(f"localhost:{port}", folder, lambda: process.poll() is not None)
        return process.wait()


@contextmanager
def local_federation(folder: Path, file: Path, data: Path | None) -> Iterator[Server]:
    """Run the SuperLink and the nodes of the configuration `file`, and yield the SuperLink.

    Args:
        folder: Folder of certificates, keys, states and logs.
        file: File of the configuration.
        data: Folder with data files; None for the default folders.
    """
    experiment = read(file)
    federation = Federation(folder, file, build_for_federation(experiment, data).problem.clients, data, cores())
    if experiment.run.aggregation == "encrypted" and not (folder / SUM_KEY).exists():
        write_key(folder / SUM_KEY)
    with ExitStack() as stack:
        stack.callback(federation.stop)
        federation.start()
        stack.enter_context(federation.supervised())
        yield federation.server


def share(processes: int) -> dict[str, str]:
    """Return the environment in which a process computes with its share of the cores, if there are so many processes.

    A variable that is set already stays as it is.

    Args:
        processes: Number of processes.
    """
    threads = str(max(1, cores() // processes))
    # OpenMP and its libraries, and XLA.
    return {name: os.environ.get(name, threads) for name in ("OMP_NUM_THREADS", "NPROC")}


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a Flower process, without telemetry, update checks and installations."""
    return os.environ | {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_HOME": str(home),
    }


def ends_within(child: subprocess.Popen, seconds: float) -> bool:
    """Return whether a process ends within `seconds`.

    Args:
        child: The process.
        seconds: How long to wait.
    """
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
