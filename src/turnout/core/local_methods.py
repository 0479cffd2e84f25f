"""Addresses of local methods within an algorithm, and the variants of a local method that samplers request."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from turnout.core.algorithm import Algorithm
from turnout.core.client import Client, Done
from turnout.core.errors import UserError
from turnout.core.messages import vector
from turnout.core.tree import positive

NORM, LOSS, BOTH = "norm()", "loss()", "with_loss()"
"""Suffixes of the addresses of variants, which reply with: the norm of the reply; the client's loss at the parameters in the
message; the reply and that loss."""


def address(algorithm: Algorithm, method: Callable) -> str:
    """Return the address of a local method in `algorithm`: "train", or "solver.gradient" for one of its field `solver`.

    Args:
        algorithm: The algorithm.
        method: A local method of it, or of a record in it.
    """
    owner = getattr(method, "__self__", algorithm)
    path = next((path for path, part in _parts(algorithm.addressed, ()) if part is owner), ())
    return ".".join([*path, method.__name__])


def local_method(algorithm: Algorithm, name: str, like: PyTree) -> Callable:
    """Return the local method, or the variant of one, at the address `name`, for parameters shaped like `like`.

    Args:
        algorithm: The algorithm.
        name: The address.
        like: Parameters of the run.

    Raises:
        UserError: Where there is no method of that name that is marked with `on_client`.
    """
    return algorithm.local(_resolved(algorithm.addressed, name, like), name)


def _resolved(algorithm: Algorithm, name: str, like: PyTree) -> Callable:
    *path, last = name.split(".")
    if last in _VARIANTS:
        return _VARIANTS[last](_resolved(algorithm, ".".join(path), like), like)
    part = dict(_parts(algorithm, ())).get(tuple(path))
    method = getattr(part, last, None)
    if method is None or not getattr(method, "on_client", False):
        raise UserError(f"{type(algorithm).__name__}.{name} is not a local method: mark it with @on_client")
    return method


def norm(tree: PyTree) -> Float[Array, ""]:
    """Return the Euclidean norm of all entries of `tree`."""
    leaves = jax.tree.leaves(tree)
    # Scaled, so that squares neither underflow nor overflow.
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in leaves]))
    scale = positive(largest)
    return scale * jnp.sqrt(sum(jnp.sum((leaf / scale) ** 2) for leaf in leaves))


def clipped(tree: PyTree, size: Float[Array, ""], limit: ArrayLike) -> PyTree:
    """Return r min(1, limit / |r|) for r = `tree`.

    Args:
        tree: The arrays.
        size: |r|, their norm.
        limit: The largest norm, a number or an array [].
    """
    factor = jnp.minimum(1, jnp.asarray(limit, size.dtype) / positive(size))
    return jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), tree)


def _norm_of(method: Callable, like: PyTree) -> Callable:
    """Return the local method that replies with the norm of the reply of `method`, without a change of the client's state."""

    def ask_norm(client: Client, message: PyTree) -> Done:
        done = method(client, message)
        return Done(norm(vector(done.reply, like)), queries=done.queries, missed=done.missed)

    return ask_norm


def _loss_at(method: Callable, like: PyTree) -> Callable:
    """Return the local method that replies with f_i at the parameters in a message to `method`."""
    return lambda client, message: Done(client.value(vector(message, like)))


def _with_loss(method: Callable, like: PyTree) -> Callable:
    """Return `method` with a second part of its reply: f_i at the parameters in its message."""

    def ask_both(client: Client, message: PyTree) -> Done:
        done = method(client, message)
        return done._replace(reply=(done.reply, client.value(vector(message, like))), queries=done.queries + 1)

    return ask_both


_VARIANTS = {NORM: _norm_of, LOSS: _loss_at, BOTH: _with_loss}


def _parts(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the record `node` and all records in its fields, each with the names of the fields on the way to it."""
    yield path, node
    for field in fields(node) if is_dataclass(node) else ():
        part = getattr(node, field.name)
        if is_dataclass(part):
            yield from _parts(part, (*path, field.name))
