"""Clients whose losses nobody else can compute."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.core.records import record, static
from turnout.problems.base import Population, Problem
from turnout.problems.oracles.base import Oracle


@record
class Remote(Problem):
    """f = sum_i lambda_i f_i where f_i is known to client i alone; see `Remote.of`.

    The rows of the server are empty: they tell how many a client has. Metrics are asked of the clients.
    """

    initial: PyTree
    owned: Callable[[int], Any] = static()
    labelled: bool = static(default=False)

    remote = True

    @property
    def classifies(self) -> bool:  # type: ignore
        return self.labelled

    @classmethod
    def of(
        cls,
        start: PyTree,
        clients: Sequence[Any] | Callable[[int], Any],
        sizes: Any = None,
        weights: Any | None = None,
        classifies: bool = False,
    ) -> "Remote":
        """Return the problem of `clients`, each an `Oracle` or a `Problem` of one client, with first parameters `start`.

        `clients` may be a function of i, which is called only for those that live in this process; then `sizes` [n] says how many
        rows each client has. `weights` [n] are lambda_i up to their sum, uniform unless given.
        """
        if sizes is None:
            if callable(clients):
                raise UserError("clients given as a function need sizes, the rows of each client: give both")
            sizes = [rows_of(client) for client in clients]
        if len(sizes) < 1 or min(sizes) < 1:
            raise UserError(f"every client has at least one row, but sizes are {list(sizes)}")
        if weights is not None and (len(weights) != len(sizes) or min(weights) < 0 or not sum(weights) > 0):
            raise UserError(f"weights need one number for each of the {len(sizes)} clients, none negative and not all zero")
        share = None if weights is None else np.asarray(weights, float) / np.sum(weights)
        owned = cache(clients if callable(clients) else partial(_one_of, list(clients)))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        start = jax.tree.map(np.asarray, start)
        return cls(np.zeros((offsets[-1], 0)), offsets, Population(len(sizes), share), start, owned, classifies)

    def losses(self, x, rows):
        # Never computed: what depends on it counts as told by the clients' rows.
        return rows.sum(1) + sum(0 * leaf.sum() for leaf in jax.tree.leaves(x))

    def start(self, key):
        return jax.tree.map(jnp.asarray, self.initial)

    def client(self, i: int):
        """Return what client i was given as: an `Oracle`, or a `Problem` of one client."""
        return self.owned(i)


def _one_of(clients: list, i: int) -> Any:
    return clients[i]


def rows_of(client: Any) -> int:
    """Return how many rows a client has."""
    if isinstance(client, Problem):
        if client.clients != 1:
            raise UserError(f"a client's problem is that of one client, but this one has {client.clients}: take .client(i)")
        return int(client.sizes[0])
    if not isinstance(client, Oracle):
        raise UserError(f"a client is an Oracle or a Problem of one client, but this one is a {type(client).__name__}")
    return client.size
