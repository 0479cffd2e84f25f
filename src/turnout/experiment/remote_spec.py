"""The `[problem]` table of clients that a Python module of the user makes."""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.core.named_class import import_from_here
from turnout.core.records import Count, config
from turnout.data.splits import Split
from turnout.problems.remote import Remote, rows_of


@config
class RemoteSpec:
    """Clients made by a Python module of the user: see `problems.Remote`.

    The module has `start()`, which returns the initial parameters, the same everywhere, and `client(number)`, which returns the
    `NumpyOracle`, the `TorchOracle` or the `Problem` of one client. A node calls `client` for its own number only. Where it has
    `module()`, which returns a PyTorch module, the files of models hold that module's whole state_dict, and its running
    statistics are averaged.

    Args:
        module: The name of the module.
        clients: The number of clients n.
        weights: lambda_i, the same for every client ("uniform") or proportional to its number of rows ("size").
        classifies: Whether the clients report an accuracy.
    """

    module: str
    clients: Count
    weights: Literal["uniform", "size"] = "uniform"
    classifies: bool = False

    def build(self, sizes: list[int] | None = None) -> Remote:
        """Return the problem; `sizes` are the numbers of rows of clients that run elsewhere."""
        sizes = self.sizes(sizes)
        weights = sizes if self.weights == "size" else None
        return Remote.of(self.start(), self.client, sizes, weights, self.classifies, self.whole, self.running)

    def split(self, sizes: list[int] | None = None) -> Split:
        """Return the split, with rows numbered client by client."""
        bounds = np.cumsum([0, *self.sizes(sizes)])
        return Split.of([np.arange(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)], int(bounds[-1]))

    def sizes(self, given: list[int] | None) -> list[int]:
        """Return the number of rows of each client: as given, or of the clients made here."""
        return given or [rows_of(self.client(i)) for i in range(self.clients)]

    @property
    def digest(self) -> str:
        """A digest of the module's file."""
        file = _module(self.module).__file__
        return "" if file is None else sha256(Path(file).read_bytes()).hexdigest()

    def start(self) -> Any:
        """Return the initial parameters."""
        return jax.tree.map(np.asarray, _function(self.module, "start")())

    @property
    def whole(self) -> Callable[[PyTree], PyTree] | None:
        """Returns what the file of a model holds; None where the module of the clients has no `module()`."""
        make = getattr(_module(self.module), "module", None)
        if not callable(make):
            return None

        def whole(x: PyTree) -> PyTree:
            from turnout.problems.oracles.torch_module import state_of

            return state_of(make(), x)

        return whole

    @property
    def running(self) -> dict[str, Any]:
        """The first running statistics, by name: those of `module()`; none where there is no such function."""
        make = getattr(_module(self.module), "module", None)
        if not callable(make):
            return {}
        from turnout.problems.oracles.torch_module import running_statistics

        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in running_statistics(make())}

    def client(self, number: int) -> Any:
        """Return the oracle or the problem of client `number`."""
        return _client(self.module, number)


@cache
def _client(module: str, number: int) -> Any:
    client = _function(module, "client")(number)
    rows_of(client)
    return client


def _function(module: str, name: str) -> Any:
    function = getattr(_module(module), name, None)
    if not callable(function):
        raise UserError(f"module {module} has no function {name}: it needs start() and client(number)")
    return function


@cache
def _module(name: str) -> ModuleType:
    """Import a module from Python's path or from the current folder."""
    try:
        return import_from_here(name)
    except ModuleNotFoundError as error:
        raise UserError(f"module {name} of the clients cannot be imported ({error}): start turnout in its folder") from None
