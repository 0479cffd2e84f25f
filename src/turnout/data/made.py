"""Clients whose rows a function makes when they are drawn: they are stored nowhere."""

from collections.abc import Callable
from hashlib import sha256

import jax
import numpy as np
from jaxtyping import Int

from turnout.core.errors import UserError
from turnout.data.stored import StoredDataset
from turnout.problems.storage.client_rows import ClientRows

Rows = tuple[np.ndarray, np.ndarray]
"""Features [n_i, ...] and labels [n_i] of a client."""


LOOKED_AT, FEW = 100, 100
"""Clients whose labels are looked at, and the most labels that these have if they are classes."""


class MadeRows(ClientRows):
    """Rows that a function makes.

    Args:
        make: Returns the features and the labels of client i, always the same.
        sizes: The number of rows of each client [n].
        shapes: Shape and dtype of one row of the features and of the labels.
        classes: The distinct labels; None for any numbers.
    """

    def __init__(
        self,
        make: Callable[[int], Rows],
        sizes: Int[np.ndarray, " n"],
        shapes: tuple[jax.ShapeDtypeStruct, ...],
        classes: np.ndarray | None,
    ):
        super().__init__(sizes, shapes)
        self.make, self._classes = make, classes

    def read(self, ids, into):
        sizes = self.offsets[ids + 1] - self.offsets[ids]
        for k, (i, size) in enumerate(zip(ids.tolist(), sizes, strict=True)):
            for array, made, row in zip(into, self.make(i), self.shapes, strict=True):
                if np.shape(made) != (size, *row.shape):
                    raise UserError(
                        f"client {i} is to have {size} rows of shape {row.shape}, but the function makes {np.shape(made)}: "
                        "let it make as many as were told"
                    )
                array[k, :size], array[k, size:] = made, made[0]
        if self._classes is not None and not np.isin(into[1], self._classes).all():
            raise UserError(f"the function makes labels that are none of {self._classes.tolist()}: name all of them as classes")


def made_clients(
    make: Callable[[int], Rows],
    clients: int,
    sizes: Int[np.ndarray, " n"] | None = None,
    classes: list | None = None,
    name: str = "made",
) -> StoredDataset:
    """Return the data set of clients whose rows a function makes when they are drawn.

    Args:
        make: Returns the features [n_i, ...] and the labels [n_i] of client i; it must return the same each time.
        clients: n, the number of clients.
        sizes: n_i [n]; None: all as many as client 0.
        classes: The distinct labels; None: those of the first clients, or any numbers where these have many.
        name: The name in messages.

    Examples:
        >>> import numpy as np, turnout as t
        >>> from turnout.data import NaturalSplit, made_clients
        >>> def make(i):
        ...     features = np.random.default_rng(i).normal(size=(5, 3))
        ...     return features, np.sign(features.sum(axis=1))
        >>> data = made_clients(make, clients=1_000_000)
        >>> problem = t.Logistic.of(data, NaturalSplit().split(data), mu=0.1)
        >>> trace = t.run(t.FedAvg(t.Nice(10), lr=0.1), problem, rounds=5, evaluate=100)
        >>> trace.ledger.totals()["contacts"]
        50
    """
    first = [np.asarray(part) for part in make(0)]
    sizes = np.full(clients, len(first[0])) if sizes is None else np.asarray(sizes)
    if sizes.shape != (clients,) or sizes.min() < 1:
        raise UserError(f"{name}: sizes are the number of rows, at least 1, of each of the {clients} clients: correct them")
    known = np.unique(classes if classes is not None else np.concatenate([make(i)[1] for i in range(min(clients, LOOKED_AT))]))
    if classes is None and known.size > FEW:
        known = None
    shapes = tuple(jax.ShapeDtypeStruct(part.shape[1:], part.dtype) for part in first)
    mark = sha256(f"{name} {clients} {sizes.sum()}".encode()).hexdigest()
    return StoredDataset.of(name, MadeRows(make, sizes, shapes, known), known, mark)
