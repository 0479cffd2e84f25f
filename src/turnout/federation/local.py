"""A local federation with production TLS and node keys: a SuperLink and node processes."""

import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import httpx

from turnout.core.errors import UserError
from turnout.engines.flower import keys
from turnout.engines.flower.registry import Registry
from turnout.engines.flower.server_connection import SECRET_HEADER, Server
from turnout.federation.process_group import ProcessGroup, environment
from turnout.io.ports import free_port

SUM_KEY = "sum.key"
"""Name of the file of the members' key for encrypted sums."""

POLL = 0.1
"""Seconds between two requests to a SuperLink that starts."""

START_TIMEOUT = 120.0
"""Seconds within which the SuperLink must answer."""


class Federation(ProcessGroup):
    """The processes of a federation on the loopback interface, with their logs, keys and states in `folder`.

    Args:
        folder: Folder of certificates, keys, states and logs.
        file: File of the configuration.
        clients: Number of clients.
        data: Folder with data files; None for the default folders.
        processes: Number of node processes; None for one for each client.
    """

    def __init__(self, folder: Path, file: Path, clients: int, data: Path | None, processes: int | None = None):
        super().__init__(folder, min(processes or clients, clients))
        self.file, self.clients, self.data = file, clients, data
        new = not (folder / keys.AUTHORITY).exists()
        folder.mkdir(parents=True, exist_ok=True)
        if new:
            self.write_keys()
        self.server = Server(f"127.0.0.1:{free_port()}", folder / keys.AUTHORITY, (folder / keys.SECRET).read_text())

    def write_keys(self) -> None:
        """Write the certificates, and the keys of the nodes that the SuperLink knows."""
        keys.write_all(self.folder, ["localhost"], range(self.clients))

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
        self.await_superlink(self.server, "superlink")

    def await_superlink(self, server: Server, name: str) -> None:
        """Wait until a SuperLink answers, which the process `name` runs; `UserError` if it does not."""
        try:
            wait_until_healthy(server, lambda: self.children[name].poll() is not None)
        except UserError as error:
            raise UserError(f"{error}: see {self.folder / f'{name}.log'}") from None

    def start_members(self) -> list[str]:
        """Start a process for each client, and return the names of the processes."""
        return [self.start_node(client) for client in range(self.clients)]

    def states(self, client: int) -> Path:
        """Return the folder of a client's private states."""
        return self.folder / f"states-{client}"

    def start_node(self, client: int) -> str:
        """Start the node of a client, and return the name of the process."""
        private = ("--key", self.key(client), "--states", self.states(client))
        return self._start_node(f"node-{client}", "--client", client, *private)

    def start_nodes(self, clients: range) -> str:
        """Start the nodes of several clients in one process, and return the name of the process."""
        which = f"{clients[0]}-{clients[-1]}"
        return self._start_node(f"nodes-{which}", "--clients", which, "--key", self.folder, "--states", self.folder)

    def _start_node(self, name: str, *options, server: Server | None = None) -> str:
        """Start a process of nodes at the SuperLink, or another one, and return the name of the process."""
        data = () if self.data is None else ("--data", self.data)
        key = self.folder / SUM_KEY
        data = (*data, "--sum-key", key) if key.exists() else data
        return self.run(name, "turnout", "node", self.file, *options, *superlink_of(server or self.server), *data)

    def key(self, client: int) -> Path:
        """Return the file of the private key of a client's node."""
        return self.folder / f"node-{client}"


def superlink_of(server: Server) -> tuple:
    """Return the options that lead a node to a SuperLink."""
    return "--superlink", server.address, "--authority", server.authority


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
