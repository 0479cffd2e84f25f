"""Problems whose clients' losses only the clients can compute."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.core.leaf_names import leaves_by_name
from turnout.core.records import record, static
from turnout.problems.base import Population, Problem
from turnout.problems.oracles.base import Oracle


@record
class Remote(Problem):
    """f = sum_i lambda_i f_i where only client i can compute f_i; see `Remote.of`.

    The engine asks the clients for metrics. Such a problem runs with `engine="nodes"` or over the network.

    Args:
        rows: Empty rows [rows, 0], as many as the clients have together.
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        initial: The initial parameters.
        owned: Returns client i, an `Oracle` or a `Problem` of one client.
        labelled: Whether clients can tell their accuracy.
        whole: Returns what the file of a model with the parameters x holds; None: x.
        moved: Names of the statistics in `initial`, which training moves without a gradient.
        apart: Whether clients are problems in JAX that train apart from how they are evaluated.

    Examples:
        >>> import numpy as np
        >>> import turnout as t
        >>> def client(b):
        ...     return t.NumpyOracle(lambda x, rows: (x - b) @ (x - b) / 2, lambda x, rows: x - b, size=1)
        >>> problem = t.Remote.of(np.zeros(2), [client(np.full(2, b)) for b in (1.0, 3.0)])
        >>> t.run(t.Gd(t.Full(), lr=1.0), problem, rounds=1, engine="nodes", metrics=("value",)).x.tolist()
        [2.0, 2.0]
    """

    initial: PyTree
    owned: Callable[[int], Any] = static()
    labelled: bool = static(default=False)
    whole: Callable[[PyTree], PyTree] | None = static(default=None)
    moved: tuple[str, ...] = static(default=())
    apart: bool = static(default=False)

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
        whole: Callable[[PyTree], PyTree] | None = None,
        running: dict[str, Any] | None = None,
    ) -> "Remote":
        """Build the problem of clients with losses of their own.

        Args:
            start: The initial parameters.
            clients: An `Oracle` or a `Problem` of one client for each i, or a function of i that returns it, which is called only
                for clients in this process.
            sizes: The number of rows of each client [n]; needed if `clients` is a function.
            weights: Client weights lambda [n] up to their sum, uniform if None.
            classifies: Whether clients can tell their accuracy.
            whole: Returns what the file of a model with the parameters x holds; None: what a client in this process says, or x.
            running: The first statistics, which training moves without a gradient, by name; None: those of the first client, or
                none if `clients` is a function.

        Raises:
            UserError: Sizes are missing or below 1, or the weights do not fit.
        """
        if sizes is None:
            if callable(clients):
                raise UserError("clients given as a function need sizes, the rows of each client: give both")
            sizes = [rows_of(client) for client in clients]
        if len(sizes) < 1 or min(sizes) < 1:
            raise UserError(f"every client has at least one row, but sizes are {list(sizes)}")
        if weights is not None and (len(weights) != len(sizes) or min(weights) < 0 or not sum(weights) > 0):
            raise UserError(f"weights need one number for each of the {len(sizes)} clients, none negative and not all zero")
        first = None if callable(clients) else clients[0]
        if running is None:
            running = first.running if isinstance(first, Oracle) else {}
        apart = isinstance(first, Problem) and first.trains_apart
        moved = first.statistics if isinstance(first, Problem) else tuple(running)
        share = None if weights is None else np.asarray(weights, float) / np.sum(weights)
        owned = cache(clients if callable(clients) else partial(_one_of, list(clients)))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        start = jax.tree.map(np.asarray, {**start, **running} if running else start)
        rows, population = np.zeros((offsets[-1], 0)), Population(len(sizes), share)
        return cls(rows, offsets, population, start, owned, classifies, whole, moved, apart)

    def losses(self, x, rows):
        # Never computed; it only shows cost estimates that losses depend on rows and parameters.
        return rows.sum(1) + sum(0 * leaf.sum() for leaf in jax.tree.leaves(x))

    def training(self, x, rows, counted, key):
        leaves = leaves_by_name(x)
        return self.losses(x, rows), {name: leaves[name] for name in self.moved}

    def start(self, key):
        return jax.tree.map(jnp.asarray, self.initial)

    @property
    def statistics(self):
        return self.moved

    @property
    def trains_apart(self):
        return self.apart or bool(self.moved)

    @property
    def takes_keys(self):
        return self.apart

    def without_clients(self) -> "Remote":
        """Return the problem without its clients, so that problems of other clients of the same sizes share compiled programs."""
        return replace(self, owned=_elsewhere, whole=None)

    def saved(self, x: PyTree) -> PyTree:
        """Return what the file of a model with the parameters x holds."""
        return x if self.whole is None else self.whole(x)

    def client(self, i: int):
        """Return client i as given: an `Oracle`, or a `Problem` of one client."""
        return self.owned(i)


def _elsewhere(i: int) -> NoReturn:
    raise UserError(f"client {i} is not here: the server has no clients")


def _one_of(clients: list, i: int) -> Any:
    return clients[i]


def rows_of(client: Any) -> int:
    """Return the number of rows of a client."""
    if isinstance(client, Problem):
        if client.clients != 1:
            raise UserError(f"a client's problem is that of one client, but this one has {client.clients}: take .client(i)")
        return int(client.sizes[0])
    if not isinstance(client, Oracle):
        raise UserError(f"a client is an Oracle or a Problem of one client, but this one is a {type(client).__name__}")
    return client.size
