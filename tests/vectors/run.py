"""How turnout plays a vector: what a run of its own has of the vector's states and messages."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from turnout.codecs import TopK
from turnout.core.triangle import symmetric


def as_sent(sent: list, clients: Any, p: dict) -> list:
    """Messages and replies have the vector's parts in their order."""
    return sent


def no_clients(server, clients, p):
    """The vector has no state of clients."""
    return []


class Run(NamedTuple):
    """How turnout plays a vector.

    Args:
        make: The algorithm, of the vector's parameters and a sampler of two clients.
        server: The vector's server state of turnout's; by default the arrays in their order.
        clients: The vector's client states of turnout's server and clients [n, ...]; by default the arrays in their order.
        messages: Whether messages and replies are compared; otherwise the states alone are.
        sent: What nodes were asked and answered as the vector has it, of what they were, of the last states of the clients, and
            of the parameters: each is (round, exchange, client, parts of the message, parts of the reply).
        options: Options of the run, of the parameters.
        models: Whether `clients` takes the models that the clients use, in the place of their states.
    """

    make: Callable
    server: Callable[[Any, dict], list] = lambda server, p: jax.tree.leaves(server)
    clients: Callable[[Any, Any, dict], list] = lambda server, clients, p: jax.tree.leaves(clients)
    messages: bool = True
    sent: Callable[[list, Any, dict], list] = as_sent
    options: Callable[[dict], dict] = lambda p: {}
    models: bool = False


def replies(read: Callable[[list, dict], list]) -> Callable[[list, Any, dict], list]:
    """Replies have the vector's parts once they are read, with the parameters."""
    return lambda sent, clients, p: [(*which, message, read(reply, p)) for *which, message, reply in sent]


def full(triangle) -> np.ndarray:
    """The matrix of a triangle."""
    return np.asarray(symmetric(jnp.asarray(triangle)))


def pair(reply: list, p: dict) -> list:
    """The last two parts are eigenvalues and eigenvectors of a matrix."""
    *whole, values, vectors = reply
    return [*whole, (vectors.T * values) @ vectors]


def largest(size: int) -> Callable[[list, dict], list]:
    """The last two parts are the numbers that `TopK` keeps of `size`, and their places."""

    def read(reply, p):
        *whole, numbers, places = reply
        payload = jnp.asarray(numbers), jnp.asarray(places)
        return [*whole, np.asarray(TopK(count=p["kept"]).decode(payload, jnp.zeros(size), None))]

    return read
