"""What a node of a federation does with the messages that it gets."""

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

from turnout.engines.flower.payload import enclosed, pack, unpack
from turnout.engines.node import Node


@dataclass(frozen=True)
class Terms:
    """What the server and all nodes have to agree on: version, precision, configuration and first parameters."""

    version: str
    precision: str
    configuration: str
    parameters: str

    @classmethod
    def of(cls, configuration: str, precision: str, start: PyTree, exact: bool) -> "Terms":
        """Return the terms of a run of `configuration`, as text, from the parameters `start`, whose values count if `exact`."""
        shapes = jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), start)
        values = sha256(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(start))).hexdigest() if exact else ""
        mark = sha256(configuration.encode()).hexdigest()
        return cls(version("turnout"), precision, mark, f"{shapes} {values}")

    @property
    def mark(self) -> str:
        """What ends the kind of requests between parties to these terms; nodes of other ones do not answer them."""
        return sha256(json.dumps(vars(self)).encode()).hexdigest()

    def differ(self, other: dict) -> list[str]:
        """Return the names of what is not the same in `other`."""
        return [name for name, value in vars(self).items() if other.get(name) != value]


def client_app(terms: Terms, seat: Callable[[dict], Node]) -> ClientApp:
    """Return the app that says hello and answers requests for the node that `seat` makes of its configuration, once."""
    app, made = ClientApp(), []

    def node(context: Context) -> Node:
        if not made:
            made.append(seat(dict(context.node_config)))
        return made[0]

    @app.query("hello")
    def hello(message: Message, context: Context) -> Message:
        mine = node(context)
        letter = json.dumps({"client": mine.number, "rows": mine.runner.size, **vars(terms)}).encode()
        return Message(pack(letter), reply_to=message)

    @app.query(f"ask_{terms.mark}")
    def ask(message: Message, context: Context) -> Message:
        with jax.enable_x64(terms.precision == "double"):
            reply = node(context).answer(*unpack(message.content))
        return Message(pack(enclosed(reply)), reply_to=message)

    @app.query(f"measure_{terms.mark}")
    def measure(message: Message, context: Context) -> Message:
        with jax.enable_x64(terms.precision == "double"):
            reply = node(context).measure(*unpack(message.content))
        return Message(pack(enclosed(reply)), reply_to=message)

    return app
