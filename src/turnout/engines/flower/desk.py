"""What a node of a federation does with the messages that it gets."""

import json
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version

import jax
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from jaxtyping import PyTree

from turnout.engines.flower.letters import enclosed, pack, unpack
from turnout.engines.wired import Node


@dataclass(frozen=True)
class Terms:
    """What the server and all nodes have to agree on: version, precision, configuration and the shapes of the parameters."""

    version: str
    precision: str
    configuration: str
    parameters: str

    @classmethod
    def of(cls, configuration: str, precision: str, start: PyTree) -> "Terms":
        """Return the terms of a run of `configuration`, as text, from the parameters `start`."""
        shapes = jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), start)
        mark = sha256(configuration.encode()).hexdigest()
        return cls(version("turnout"), precision, mark, str(shapes))

    def differ(self, other: dict) -> list[str]:
        """Return the names of what is not the same in `other`."""
        return [name for name, value in vars(self).items() if other.get(name) != value]


def client_app(node: Node, terms: Terms) -> ClientApp:
    """Return the app that says hello and answers requests for `node`."""
    app = ClientApp()

    @app.query("hello")
    def hello(message: Message, context: Context) -> Message:
        letter = json.dumps({"client": node.number, **vars(terms)}).encode()
        return Message(pack(letter), reply_to=message)

    @app.query("ask")
    def ask(message: Message, context: Context) -> Message:
        with jax.enable_x64(terms.precision == "double"):
            reply = node.answer(*unpack(message.content))
        return Message(pack(enclosed(reply)), reply_to=message)

    return app
