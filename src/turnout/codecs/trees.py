"""Exchanges whose replies the clients of an algorithm compress themselves: a codec is a field of the algorithm."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.codecs.base import Codec
from turnout.codecs.parts import Direction, Shape
from turnout.core.algorithm import Ask
from turnout.core.client import Client
from turnout.core.errors import UserError
from turnout.core.replies import Replies


def parts_of(codec: Codec, like: PyTree, contract: bool = False) -> Direction:
    """Return how trees that are shaped like `like` are compressed: each array of more than one floating-point number.

    Args:
        codec: C.
        like: A tree of arrays, or of their shapes.
        contract: Whether an unbiased C is divided by 1 + omega.
    """
    # With "ef21" and a memory of zeros, C(m - 0) is what is read.
    direction = Direction(codec, "ef21" if contract else "none", False, Shape.of(like))
    direction.check()
    return direction


def compress(codec: Codec, tree: PyTree, client: Client, key, contract: bool = False) -> tuple[PyTree, PyTree]:
    """Return the payload of a tree and C(tree), which the server reads.

    Args:
        codec: C.
        tree: What the client replies with.
        client: The client.
        key: The key that came with the message of `ask_compressed`.
        contract: Whether an unbiased C is divided by 1 + omega.
    """
    direction, own = parts_of(codec, tree, contract), client.key if key is None else _own(key, client.id)
    payload, _ = direction.send(tree, direction.memory(), own)
    return payload, direction.receive(payload, direction.memory(), own)[0]


def ask_compressed(
    ask: Ask,
    who: Any,
    method: Callable,
    message: PyTree,
    codec: Codec,
    like: PyTree,
    contract: bool = False,
    beside: bool = False,
) -> Replies:
    """Return the replies C(r_i) to (message, key), where clients reply with the payload of `compress`.

    The key takes 8 bytes where the codec decodes with one, and is None elsewhere. Each client derives its own from it.

    Args:
        ask: Access to the clients.
        who: A cohort, or a sampler to draw one with.
        method: The local method.
        message: What it is sent besides the key.
        codec: C.
        like: A tree of the shape of r_i.
        contract: Whether an unbiased C is divided by 1 + omega.
        beside: Whether replies are pairs of what travels whole and the payload, and those returned of that and C(r_i).
    """
    direction = parts_of(codec, like, contract)
    key = jax.random.key_data(ask.key()) if codec.decodes_with_key else None
    replies = ask(who, method, (message, key))

    def read(i, reply):
        whole, payload = reply if beside else (None, reply)
        change = direction.receive(payload, direction.memory(), None if key is None else _own(key, i))[0]
        return (whole, change) if beside else change

    return replies.map(read)


def compressed_message(codec: Codec, tree: PyTree, key) -> tuple[PyTree, PyTree]:
    """Return what a message to all clients has of a tree, and C(tree), which they read; an unbiased C is divided by 1 + omega.

    The first is the payload, and the key where the codec decodes with one, else None.

    Args:
        codec: C.
        tree: The tree.
        key: Random key.
    """
    direction = parts_of(codec, tree, contract=True)
    payload, _ = direction.send(tree, direction.memory(), key)
    sent = jax.random.key_data(key) if codec.decodes_with_key else None
    return (payload, sent), direction.receive(payload, direction.memory(), key)[0]


def read_message(codec: Codec, sent: PyTree, like: PyTree) -> PyTree:
    """Return C(tree) of `compressed_message`.

    Args:
        codec: C.
        sent: What the message has of the tree.
        like: A tree of its shape.
    """
    direction, (payload, key) = parts_of(codec, like, contract=True), sent
    return direction.receive(payload, direction.memory(), None if key is None else _key(key))[0]


def _key(data) -> Any:
    return jax.random.wrap_key_data(jnp.asarray(data), impl="threefry2x32")


def _own(key, i) -> Any:
    """Return the key of client i."""
    return jax.random.fold_in(_key(key), i)


def contraction_of(codec: Codec, like: PyTree) -> float:
    """Return alpha of a codec on each array of a tree, the least of those of its arrays.

    Args:
        codec: C.
        like: A tree of arrays, or of their shapes.

    Raises:
        UserError: Where none is known.
    """
    constants = [codec.contraction(part.size) for part in parts_of(codec, like).parts]
    if None in constants:
        raise UserError(f"no contraction of {type(codec).__name__} is known, so no step size follows: give lr")
    return min(constants, default=1.0)


def variance_of(codec: Codec, like: PyTree) -> float:
    """Return omega of an unbiased codec on each array of a tree, the largest of those of its arrays.

    Args:
        codec: C.
        like: A tree of arrays, or of their shapes.

    Raises:
        UserError: Where the codec is biased.
    """
    constants = [codec.variance(part.size) for part in parts_of(codec, like).parts]
    if None in constants:
        raise UserError(f"{type(codec).__name__} is biased: take an unbiased codec, or the algorithm ef21")
    return max(constants, default=0.0)
