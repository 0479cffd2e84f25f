"""The ClientApp of a node: it answers the handshake, requests to run a local method, and requests for metrics."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version

import jax
import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from jaxtyping import PyTree

from turnout.engines.flower.payload import pack, pack_body, unpack
from turnout.engines.node import Node


@dataclass(frozen=True)
class Handshake:
    """The fields that the server and all nodes must agree on: version, precision, configuration and initial parameters.

    Args:
        version: Version of turnout.
        precision: Precision of the run.
        configuration: Digest of the configuration.
        parameters: Shapes and types of the initial parameters, and a digest of their values if these must agree.
    """

    version: str
    precision: str
    configuration: str
    parameters: str

    @classmethod
    def of(cls, configuration: str, precision: str, start: PyTree, exact: bool) -> "Handshake":
        """Return the fields of a run of `configuration`, a text, from the parameters `start`; their values count if `exact`.

        Args:
            configuration: Text of the configuration.
            precision: Precision of the run.
            start: Initial parameters.
            exact: Whether the values of the parameters must agree too.
        """
        shapes = jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), start)
        values = sha256(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(start))).hexdigest() if exact else ""
        digest = sha256(configuration.encode()).hexdigest()
        return cls(version("turnout"), precision, digest, f"{shapes} {values}")

    @property
    def digest(self) -> str:
        """A digest of all fields. It is part of the type of every request, so that a node with other fields answers none."""
        return sha256(json.dumps(vars(self)).encode()).hexdigest()

    def differences(self, other: dict) -> list[str]:
        """Return the names of the fields that differ in `other`."""
        return [name for name, value in vars(self).items() if other.get(name) != value]


def client_app(handshake: Handshake, make_node: Callable[[dict], Node]) -> ClientApp:
    """Return the app that answers for one node; `make_node` is called once, with the node's configuration.

    Args:
        handshake: The fields of the handshake.
        make_node: Returns the node, given its configuration; called once.
    """
    app, nodes = ClientApp(), []

    def node_of(context: Context) -> Node:
        if not nodes:
            nodes.append(make_node(dict(context.node_config)))
        return nodes[0]

    @app.query("hello")
    def hello(message: Message, context: Context) -> Message:
        node = node_of(context)
        fields = {"client": node.number, "rows": node.runner.size, **vars(handshake)}
        return Message(pack(json.dumps(fields).encode()), reply_to=message)

    @app.query(f"ask_{handshake.digest}")
    def ask(message: Message, context: Context) -> Message:
        with jax.enable_x64(handshake.precision == "double"):
            reply = node_of(context).answer(*unpack(message.content))
        return Message(pack(pack_body(reply)), reply_to=message)

    @app.query(f"measure_{handshake.digest}")
    def measure(message: Message, context: Context) -> Message:
        with jax.enable_x64(handshake.precision == "double"):
            reply = node_of(context).measure(*unpack(message.content))
        return Message(pack(pack_body(reply)), reply_to=message)

    return app
