"""A whole federation on this machine: a SuperLink, a node for each client, and their keys and certificates, as in earnest."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_urlsafe

import httpx

from turnout.engines.flower import keys
from turnout.engines.flower.desk import Terms, client_app
from turnout.engines.flower.engine import Post, meet
from turnout.engines.flower.link import Server, joined, register, serve
from turnout.engines.flower.states import DiskStates
from turnout.engines.wired import Node
from turnout.errors import UserError
from turnout.experiment.config import Experiment, read
from turnout.experiment.folder import Built, build
from turnout.session import bind, prepare, scope

REST = 5.0
"""Seconds between two starts of a process that ends: the SuperLink refuses a node that was killed until it has noticed."""

PATIENCE = 120.0
"""Seconds within which the SuperLink has to answer, and all nodes to say hello."""


def terms_of(experiment: Experiment, built: Built) -> Terms:
    """Return what the server and the nodes of `experiment` have to agree on."""
    with scope(experiment.run.precision):
        start = prepare(built.problem, experiment.run.seeds(), None, None).start
    return Terms.of(experiment.to_toml(), experiment.run.precision, start)


def serve_client(file: Path, client: int, address: str, authority: Path, key: Path, folder: Path, data: Path | None) -> None:
    """Be the node of one client for good; its private states are kept in `folder`."""
    experiment = read(file)
    built, spec = build(experiment, data), experiment.run
    if not 0 <= client < built.problem.clients:
        raise UserError(f"{file} has clients 0 to {built.problem.clients - 1}, so that no node can be client {client}")
    with scope(spec.precision):
        job = prepare(built.problem, spec.seeds(), None, None)
        algorithm = bind(experiment.algorithm, built.problem, spec.rounds)
        node = Node(client, built.problem.client(client), algorithm, job.start, job.seeds)
        node.states = DiskStates(folder, node.first)
        if experiment.privacy is not None:
            node.protection = experiment.privacy.protection()
    serve(client_app(node, terms_of(experiment, built)), address, authority, keys.read_node_key(key))


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
            keys.write_certificates(folder, ["localhost", "127.0.0.1"])
            keys.secret(folder / "secret", token_urlsafe(32).encode())
        self.server = Server(f"127.0.0.1:{free_port()}", folder / keys.AUTHORITY, (folder / "secret").read_text())

    def start(self) -> None:
        """Start the SuperLink, register the nodes' keys and start the nodes. Of an earlier federation states alone remain."""
        for left in self.folder.glob("superlink.db*"):
            left.unlink()
        self.start_superlink()
        public = [keys.write_node_key(self.key(i)) for i in range(self.clients)]
        register(self.server, public)
        for i in range(self.clients):
            self.start_node(i)

    def start_superlink(self) -> None:
        """Start the SuperLink, and wait until it answers."""
        host, _, port = self.server.address.rpartition(":")
        self._run(
            "superlink",
            *("turnout.engines.flower.superlink", self.folder / "secret", "--host", host, "--port", port),
            *("--database", self.folder / "superlink.db", "--isolation", "process", "--enable-supernode-auth"),
            *("--ssl-certfile", self.folder / keys.CERTIFICATE, "--ssl-keyfile", self.folder / keys.KEY),
            *("--ssl-ca-certfile", self.server.authority),
        )
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                httpx.get(f"https://{self.server.address}/health", verify=self.server.trusted)
                return
            except httpx.TransportError:
                if ended(self.children["superlink"], 0.1):
                    break
        raise UserError(f"the SuperLink did not start: see {self.folder / 'superlink.log'}")

    def start_node(self, client: int) -> str:
        """Start the node of a client, and return what the process is called."""
        data = () if self.data is None else ("--data", self.data)
        mine = ("--key", self.key(client), "--states", self.folder / f"states-{client}", *data)
        theirs = ("--superlink", self.server.address, "--authority", self.server.authority)
        return self._run(f"node-{client}", "turnout", "node", self.file, "--client", client, *theirs, *mine)

    def mind(self) -> None:
        """Start again whatever has ended, the same thing once in `REST` seconds."""
        now = time.monotonic()
        for name, child in self.children.items():
            if child.poll() is not None and now >= self._rest.get(name, 0.0):
                self._rest[name] = now + REST
                self._launch(name)

    def stop(self, names: list[str] | None = None) -> None:
        """Stop the processes with these names, or all."""
        children = [self.children.pop(name) for name in names or list(self.children)]
        for child in children:
            child.terminate()
        for child in children:
            if not ended(child, 10):
                child.kill()

    def key(self, client: int) -> Path:
        """Return where the private key of a client's node is."""
        return self.folder / f"node-{client}"

    def _run(self, name: str, *command) -> str:
        self._commands[name] = [sys.executable, "-m", *map(str, command)]
        self._launch(name)
        return name

    def _launch(self, name: str) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            options = {"stdout": log, "stderr": subprocess.STDOUT, "env": environment(self.folder / "home" / name)}
            self.children[name] = subprocess.Popen(self._commands[name], **options)


@contextmanager
def federated(folder: Path, file: Path, data: Path | None, deadline: float) -> Iterator[tuple[Post, dict[int, int]]]:
    """Run the federation of the configuration `file` inside, and yield its post and the nodes' ids by client."""
    experiment = read(file)
    built = build(experiment, data)
    federation = Federation(folder, file, built.problem.clients, data)
    with ExitStack() as stack:
        stack.callback(federation.stop)
        federation.start()
        post = Post(stack.enter_context(joined(federation.server)), deadline, federation.mind)
        yield post, meet(post, terms_of(experiment, built), built.problem.clients, PATIENCE)


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
