"""A whole federation on this machine: a SuperLink, a node for each client, and their keys and certificates, as in earnest."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from turnout.core.errors import UserError
from turnout.engines.flower import keys
from turnout.engines.flower.server_connection import HEADER, Server, register
from turnout.experiment.config import read
from turnout.federation.handshake import elsewhere

REST = 5.0
"""Seconds between two starts of a process that ends: the SuperLink refuses a node that was killed until it has noticed."""

LOOK = 0.1
"""Seconds between two looks for a SuperLink that starts."""

WATCH = 0.2
"""Seconds between two looks for processes that ended."""

PATIENCE = 120.0
"""Seconds within which the SuperLink has to answer."""


class Federation:
    """The processes of a federation on loopback, with their logs, keys and states in `folder`."""

    def __init__(self, folder: Path, file: Path, clients: int, data: Path | None):
        self.folder, self.file, self.clients, self.data = folder, file, clients, data
        self.children: dict[str, subprocess.Popen] = {}
        self._commands: dict[str, list[str]] = {}
        self._rest: dict[str, float] = {}
        new = not (folder / keys.AUTHORITY).exists()
        folder.mkdir(parents=True, exist_ok=True)
        if new:
            keys.write_all(folder, ["localhost"], clients)
        self.server = Server(f"127.0.0.1:{free_port()}", folder / keys.AUTHORITY, (folder / keys.SECRET).read_text())

    def start(self) -> None:
        """Start the SuperLink and the nodes."""
        self.admit()
        for i in range(self.clients):
            self.start_node(i)

    def admit(self) -> None:
        """Start the SuperLink and register the nodes' keys. Of an earlier federation states alone remain."""
        for left in self.folder.glob("superlink.db*"):
            left.unlink()
        self.start_superlink()
        register(self.server, public_keys(self.folder))

    def start_superlink(self) -> None:
        """Start the SuperLink, and wait until it answers."""
        host, _, port = self.server.address.rpartition(":")
        self.run("superlink", *superlink_command(self.folder, host, int(port)))
        try:
            healthy(self.server, lambda: self.children["superlink"].poll() is not None)
        except UserError as error:
            raise UserError(f"{error}: see {self.folder / 'superlink.log'}") from None

    def start_node(self, client: int) -> str:
        """Start the node of a client, and return what the process is called."""
        data = () if self.data is None else ("--data", self.data)
        mine = ("--key", self.key(client), "--states", self.folder / f"states-{client}", *data)
        theirs = ("--superlink", self.server.address, "--authority", self.server.authority)
        return self.run(f"node-{client}", "turnout", "node", self.file, "--client", client, *theirs, *mine)

    def mind(self) -> dict[str, int]:
        """Start again whatever has ended, the same thing once in `REST` seconds; return how these ended, by name."""
        now, found = time.monotonic(), {}
        for name, child in self.children.items():
            if child.poll() is not None and now >= self._rest.get(name, 0.0):
                self._rest[name], found[name] = now + REST, child.returncode
                self._launch(name)
        return found

    @contextmanager
    def minded(self) -> Iterator[None]:
        """Start again whatever ends inside; in a thread of its own, since a server waits for a SuperLink that is gone."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(WATCH):
                self.mind()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def stop(self, names: list[str] | None = None) -> None:
        """Stop the processes with these names, or all."""
        children = [self.children.pop(name) for name in names or list(self.children)]
        for child in children:
            child.terminate()
        for child in children:
            if not ended(child, 10):
                child.kill()
                child.wait()
            child.stdin.close()

    def key(self, client: int) -> Path:
        """Return where the private key of a client's node is."""
        return self.folder / f"node-{client}"

    def run(self, name: str, *command) -> str:
        """Start a module with its arguments as the process `name`, which ends with this one, and return the name."""
        self._commands[name] = [sys.executable, "-m", "turnout.federation.child_process", *map(str, command)]
        self._launch(name)
        return name

    def _launch(self, name: str) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            options = {
                "stdin": subprocess.PIPE,
                "stdout": log,
                "stderr": subprocess.STDOUT,
                "env": environment(self.folder / "home" / name),
            }
            new = subprocess.Popen(self._commands[name], **options)
        old, self.children[name] = self.children.get(name), new
        if old is not None:
            old.stdin.close()


def superlink_command(folder: Path, host: str, port: int) -> list[str]:
    """Return the module, with its arguments, of a guarded SuperLink whose certificates and database are in `folder`."""
    options = {
        "host": host,
        "port": port,
        "database": folder / "superlink.db",
        "isolation": "process",
        "ssl-certfile": folder / keys.CERTIFICATE,
        "ssl-keyfile": folder / keys.KEY,
        "ssl-ca-certfile": folder / keys.AUTHORITY,
    }
    given = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    return ["turnout.engines.flower.superlink", str(folder / keys.SECRET), *given, "--enable-supernode-auth"]


def healthy(server: Server, over: Callable[[], bool]) -> int:
    """Wait until the SuperLink answers, and return with which status; `UserError` if it does not, or at once if it is `over`."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            answer = httpx.get(f"https://{server.address}/health", verify=server.trusted, headers={HEADER: server.secret})
            return answer.status_code
        except httpx.TransportError as error:
            if over() or time.monotonic() > end or "CERTIFICATE" in str(error):
                raise UserError(f"no SuperLink with these certificates answers at {server.address} ({error})") from None
        time.sleep(LOOK)


def public_keys(folder: Path) -> list[bytes]:
    """Return the keys by which the nodes of a federation are known, from the folder that `turnout certify` made."""
    found = sorted(folder.glob("node-*.pub"))
    if not found or not (folder / keys.SECRET).exists():
        raise UserError(f"{folder} holds no keys of nodes: make them by turnout certify {folder} --host NAME --clients N")
    return [path.read_bytes() for path in found]


def server_at(address: str, folder: Path, over: Callable[[], bool] = lambda: False) -> Server:
    """Return the SuperLink that answers at `address`, whose certificates and secret word are in `folder`."""
    public_keys(folder)
    server = Server(address, folder / keys.AUTHORITY, (folder / keys.SECRET).read_text())
    if healthy(server, over) == httpx.codes.FORBIDDEN:
        raise UserError(f"the SuperLink at {address} has another secret word than {folder}: give it the same folder")
    return server


def keep_superlink(folder: Path, host: str, port: int) -> int:
    """Run a SuperLink, which the nodes whose keys are in `folder` may join, and return how it ended."""
    public = public_keys(folder)
    command = [sys.executable, "-m", "turnout.federation.child_process", *superlink_command(folder, host, port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment(folder / "home")) as process:
        register(server_at(f"localhost:{port}", folder, lambda: process.poll() is not None), public)
        return process.wait()


@contextmanager
def federated(folder: Path, file: Path, data: Path | None) -> Iterator[Server]:
    """Run the federation of the configuration `file` inside, and yield where its server finds it."""
    federation = Federation(folder, file, elsewhere(read(file), data).problem.clients, data)
    with ExitStack() as stack:
        stack.callback(federation.stop)
        federation.start()
        stack.enter_context(federation.minded())
        yield federation.server


def environment(home: Path) -> dict[str, str]:
    """Return the variables of a process of Flower's: it asks nobody for updates, and reports to nobody."""
    return os.environ | {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_HOME": str(home),
    }


def ended(child: subprocess.Popen, seconds: float) -> bool:
    """Return whether a process ends within so many seconds."""
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
