"""A server that asks one node in this process for more than it should."""

import json
from pathlib import Path

import jax
import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from turnout.engines.flower.payload import pack, unpack
from turnout.experiment.config import read
from turnout.federation.handshake import build_for_federation, handshake_of
from turnout.federation.site import app_of
from turnout.io.serialization import decode, encode

SECRET = np.array([1.0, -2.0, 0.5])
"""What the client of `CLIENTS` keeps to itself: its update from zero, with step size one."""

CLIENTS = """
import threading

import numpy as np
import turnout as t

GATE, SECRET = threading.Event(), np.array([1.0, -2.0, 0.5])


def start():
    return np.zeros(3)


def client(number):
    def value(x, rows):
        if x[0] == 4711:
            raise RuntimeError("patient 4711 has a bad row")
        if x[0] == 815:
            GATE.wait(60)
        return np.sum((x - SECRET) ** 2) / 2

    return t.NumpyOracle(value, lambda x, rows: x - SECRET, size=5)
"""

TOML = """
name = "trial"
[problem]
kind = "remote"
module = "own_clients"
clients = 2
[sampler]
kind = "full"
[algorithm]
kind = "fedavg"
lr = 1.0
steps = 1
[run]
rounds = 30
metrics = ["value"]
"""

LOCAL = """
[privacy]
clip = 100.0
noise_multiplier = 4.0
delta = 1e-5
model = "local"
"""


class Refusal(Exception):
    """What a node says when it does not answer."""


class Insider:
    """The server of a federation, which can send a node whatever it likes.

    Args:
        folder: Folder with own_clients.py, file.toml and the node's states.
        toml: The configuration.
        options: Further arguments of `app_of`.
    """

    def __init__(self, folder: Path, toml: str, **options):
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 7, 0, 0
        self.folder, self.states, self.options = folder, folder / "states", options
        (folder / "file.toml").write_text(toml)
        self.like = np.zeros(3)
        self.restart()
        self.configure(toml)

    def restart(self) -> None:
        """End the node and start it again."""
        self.app = app_of(self.folder / "file.toml", 0, self.states, None, **self.options)

    def configure(self, toml: str) -> None:
        """Take another configuration as the server's."""
        (self.folder / "server.toml").write_text(toml)
        experiment = read(self.folder / "server.toml")
        self.handshake = handshake_of(experiment, build_for_federation(experiment, None))

    def send(self, kind: str, header: bytes, body: bytes) -> bytes:
        """Return the body of the node's reply."""
        message = Message(pack(body, header), 1, f"query.{kind}")
        try:
            reply = self.app(message, Context(0, 1, {}, RecordDict(), {}))
        except Exception as error:
            raise Refusal(repr(error)) from error
        if reply.has_error():
            raise Refusal(reply.error.reason)
        return unpack(reply.content)[1][:]

    def hello(self) -> dict:
        """Greet the node."""
        return json.loads(self.send("hello", self.handshake.text.encode(), b""))

    def ask(self, x, *rest, method: str = "train", raw: bytes | None = None, **fields):
        """Return the reply of a local method at `x`, with the `rest` of its message; `raw` is a whole header."""
        message = np.asarray(x, float) if method == "prox" else (np.asarray(x, float), *rest, None)
        header = {"method": method, "base": (-1, -1), "kept": (-1, -1), "made": (1, 0)} | fields
        with jax.enable_x64(True):
            reply = self.send(f"ask_{self.handshake.digest}", raw or json.dumps(header).encode(), encode(message, self.like))
        tree, self.counts = decode(reply, self.like)
        return tree

    def measure(self, x, *names: str) -> dict:
        """Return the functions `names` of the client's loss at `x`."""
        with jax.enable_x64(True):
            header = json.dumps({"measure": names}).encode()
            reply = self.send(f"measure_{self.handshake.digest}", header, encode(np.asarray(x, float), self.like))
        return decode(reply, self.like)[0]
