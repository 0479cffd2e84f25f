"""Problems whose clients are programs of their own, in a Python module that the configuration names."""

import importlib
import os
import sys
from functools import cache
from types import ModuleType
from typing import Any, Literal

import jax
import numpy as np

from turnout.core.errors import UserError
from turnout.core.records import Count, config
from turnout.data.splits import Split
from turnout.problems.remote import Remote, rows_of


@config
class RemoteSpec:
    """Clients that `module` makes: its `start()` returns the first parameters, the same everywhere, and its `client(number)` what
    client `number` holds, a `NumpyOracle`, a `TorchOracle` or a `Problem` of one client. See `problems.Remote`.

    Each node calls `client` for its own number only. `weights` says what lambda_i is: the same for every client ("uniform") or
    proportional to its rows ("size").
    """

    module: str
    clients: Count
    weights: Literal["uniform", "size"] = "uniform"
    classifies: bool = False

    def build(self, sizes: list[int] | None = None) -> Remote:
        """Return the problem; where the clients are elsewhere, `sizes` says how many rows each has."""
        sizes = self.sizes(sizes)
        weights = sizes if self.weights == "size" else None
        return Remote.of(self.start(), self.client, sizes, weights, self.classifies)

    def split(self, sizes: list[int] | None = None) -> Split:
        """Return who holds which row, the rows being numbered client by client."""
        bounds = np.cumsum([0, *self.sizes(sizes)])
        return Split.of([np.arange(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)], int(bounds[-1]))

    def sizes(self, given: list[int] | None) -> list[int]:
        """Return the rows of each client, counted here unless given."""
        return given or [rows_of(self.client(i)) for i in range(self.clients)]

    def start(self) -> Any:
        """Return the first parameters."""
        return jax.tree.map(np.asarray, _part(self.module, "start")())

    def client(self, number: int) -> Any:
        """Return what client `number` holds."""
        return _client(self.module, number)


@cache
def _client(module: str, number: int) -> Any:
    made = _part(module, "client")(number)
    rows_of(made)
    return made


def _part(module: str, name: str) -> Any:
    part = getattr(_module(module), name, None)
    if not callable(part):
        raise UserError(f"module {module} has no function {name}: write one, start() and client(number) being wanted")
    return part


@cache
def _module(name: str) -> ModuleType:
    """Import a module from where Python finds it, or from the folder that turnout was started in."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UserError(f"module {name} of the clients cannot be imported ({error}): start turnout in its folder") from None
