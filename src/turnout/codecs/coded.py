"""An algorithm whose exchanges are compressed: its local methods read and write payloads."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.codecs.exchange import AT_BOTH_ENDS, Exchange
from turnout.codecs.parts import Direction, Shape
from turnout.core.algorithm import Algorithm
from turnout.core.client import Client, Done
from turnout.core.compiling import program
from turnout.core.local_methods import BOTH
from turnout.core.records import record, static


class Coding(NamedTuple):
    """The two directions of one local method.

    Args:
        down: Its messages.
        up: Its replies.
    """

    down: Direction
    up: Direction

    @property
    def sends_key(self) -> bool:
        """Whether a message holds the random key that the clients need: to decode it, or to encode alike."""
        common = self.up.codes and self.up.codec.decodes_with_key and self.up.codec.linear
        return common or (self.down.codes and self.down.codec.decodes_with_key)


class CodedState(NamedTuple):
    """The private state of a client.

    Args:
        own: Its state in the algorithm.
        memory: Its memory of messages and of replies, for each local method.
    """

    own: PyTree
    memory: dict[str, tuple[list, list]]


@record
class Coded(Algorithm):
    """The `algorithm` with compressed messages and replies; made by the engines.

    Args:
        algorithm: The algorithm, bound to the problem.
        exchange: The codecs.
        shapes: Address of each local method, and the shapes of its messages and replies.
        plain: How many arrays at the end of each message and reply are not compressed: statistics.
    """

    algorithm: Algorithm
    exchange: Exchange
    shapes: tuple[tuple[str, Shape, Shape], ...] = static()
    plain: int = static(default=0)

    wraps: ClassVar[str] = "algorithm"
    """The field whose own fields and local methods are named as if they were this record's."""

    cohorts_per_round = None

    def coding(self, name: str) -> Coding | None:
        """Return how the exchanges of the local method `name` are compressed; None if they are not."""
        for known, message, reply in self.shapes:
            if known == without_loss(name):
                how = self.exchange.feedback, self.exchange.by == "whole"
                coding = Coding(
                    Direction(self.exchange.down, *how, message, self.plain), Direction(self.exchange.up, *how, reply, self.plain)
                )
                return coding if coding.down.codes or coding.up.codes else None
        return None

    def memories(self, x: PyTree, of: Literal["client", "server"]) -> dict[str, tuple[list, list]]:
        """Return the first memory of messages and of replies, for each local method; nothing without feedback.

        Args:
            x: Initial parameters.
            of: Who remembers. With "ef14" only the sender does.
        """
        if self.exchange.feedback == "none":
            return {}
        both = self.exchange.feedback in AT_BOTH_ENDS
        codings = ((name, self.coding(name)) for name, *_ in self.shapes)
        return {
            name: (
                coding.down.memory(x) if both or of == "server" else [],
                coding.up.memory() if both or of == "client" else [],
            )
            for name, coding in codings
            if coding is not None
        }

    @property
    def addressed(self):
        return self.algorithm.addressed

    def local(self, method, name):
        coding, method = self.coding(name), self.algorithm.local(method, name)
        return partial(_inside if coding is None else _coded, self, method, name)

    def start(self, ask, x):
        return self.algorithm.start(ask, x)

    def round(self, ask, server):
        return self.algorithm.round(ask, server)

    def output(self, server):
        return self.algorithm.output(server)

    def client_state(self, x):
        own, memory = self.algorithm.client_state(x), self.memories(x, "client")
        return CodedState(own, memory) if memory else own

    def duals(self, server, clients, round):
        return self.algorithm.duals(server, self._own(clients), round)

    def _own(self, state: PyTree) -> PyTree:
        """Return the algorithm's part of the private state of a client."""
        return state.own if self.exchange.feedback != "none" and isinstance(state, CodedState) else state


def _inside(coded: Coded, method: Callable, name: str, client: Client, message: PyTree) -> Done:
    """Run a local method whose exchange is not compressed."""
    own = coded._own(client.state)
    done = method(client.with_state(own), message)
    return done if own is client.state or done.state is None else done._replace(state=client.state._replace(own=done.state))


def _coded(coded: Coded, method: Callable, name: str, client: Client, message: PyTree) -> Done:
    """Decode the message, run the local method, and encode its reply."""
    coding = coded.coding(name)
    payload, *key = message
    shared = jax.random.wrap_key_data(jnp.asarray(key[0]), impl="threefry2x32") if key else None
    base, remembers = without_loss(name), coded.exchange.feedback != "none"
    heard, said = client.state.memory[base] if remembers else ([], [])
    message, heard = received(payload, heard, shared, coding.down)
    done = method(client.with_state(coded._own(client.state)), message)
    reply, *loss = (done.reply,) if base == name else done.reply
    key = shared if is_common(coding.up) else jax.random.fold_in(client.key, UP)
    reply, said = sent(reply, said, key, coding.up)
    state = done.state
    if remembers:
        own = client.state.own if done.state is None else done.state
        state = CodedState(own, client.state.memory | {base: (heard, said)})
    return done._replace(reply=(reply, *loss) if loss else reply, state=state)


UP = 1_000_003
"""Folded into a client's key for the codec of its reply."""


def without_loss(name: str) -> str:
    """Return the address of a local method whose clients may reply with their loss too; a loss is not compressed."""
    return name.removesuffix(f".{BOTH}")


def is_common(up: Direction) -> bool:
    """Return whether all clients of an exchange encode their replies with one key."""
    return up.codes and up.codec.decodes_with_key and up.codec.linear


def received(payload: PyTree, memory: list, key, direction: Direction) -> tuple[PyTree, list]:
    """Return the tree that a payload stands for, in NumPy where the payload is, and the receiver's next memory.

    Args:
        payload: The payload.
        memory: The receiver's memory.
        key: Random key of the sender, if it is needed.
        direction: How the tree is compressed.
    """
    if not direction.codes:
        return payload, memory
    on_host = all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(payload))
    tree, memory = _receive(payload, memory, key, direction=direction)
    return (jax.tree.map(np.asarray, tree) if on_host else tree), memory


def sent(tree: PyTree, memory: list, key, direction: Direction) -> tuple[PyTree, list]:
    """Return the payload of a tree and the sender's next memory.

    Args:
        tree: Message or reply.
        memory: The sender's memory.
        key: Random key.
        direction: How the tree is compressed.
    """
    return _send(tree, memory, key, direction=direction) if direction.codes else (tree, memory)


# Outside of compiled programs each is one dispatch.
@partial(program, static_argnames="direction")
def _receive(payload: PyTree, memory: list, key, *, direction: Direction) -> Any:
    return direction.receive(payload, memory, key)


@partial(program, static_argnames="direction")
def _send(tree: PyTree, memory: list, key, *, direction: Direction) -> Any:
    return direction.send(jax.tree.map(jnp.asarray, tree), memory, key)
