"""Rounds of an algorithm in which some of the shared leaves are fixed: messages have these, and replies have not."""

from types import MethodType
from typing import Any, ClassVar

import numpy as np

from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.client import Client
from turnout.core.errors import UserError
from turnout.core.records import record
from turnout.core.wrapped_client import WrappedClient
from turnout.problems.grouped import Leaves


@record
class Halves(Algorithm):
    """The rounds of an algorithm with fixed leaves, whose local methods are called by what moves, such as "b_train".

    Args:
        algorithm: The algorithm, whose state is its parameters.
    """

    algorithm: Algorithm

    wraps: ClassVar[str] = "algorithm"
    moves: ClassVar[tuple[str, ...]]

    cohorts_per_round = None

    def __getattr__(self, name: str) -> Any:
        """Return the local method `name` of the algorithm, such as "b_train", for clients with the other leaves fixed."""
        moves, _, inner = name.partition("_")
        method = getattr(self.__dict__.get("algorithm"), inner, None) if moves in type(self).moves else None
        if method is None or not getattr(method, "on_client", False):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

        @on_client
        def on_half(self, client, message):
            message, fixed = message
            return method(HalfClient(client, fixed), message)

        on_half.__name__ = name
        return MethodType(on_half, self)


def has_only_parameters(algorithm: Algorithm, x: Leaves) -> bool:
    """Return whether the server's state is the parameters, and clients have none.

    Args:
        algorithm: The algorithm.
        x: The first parameters.
    """
    own = type(algorithm)
    return own.start is Algorithm.start and own.output is Algorithm.output and algorithm.client_state(x) is None


def check_differences(algorithm: Algorithm, x: Leaves, wanted: str) -> None:
    """Raise `UserError` where replies are no differences of the server's parameters.

    Args:
        algorithm: The algorithm.
        x: The first parameters.
        wanted: What they are needed for, after "from which".
    """
    if not algorithm.replies_differences or not has_only_parameters(algorithm, x):
        name = type(algorithm).__name__
        raise UserError(
            f"replies of {name} are no differences of parameters, from which {wanted}: take FedAvg, or trained = 'both'"
        )


class HalfAsk:
    """The `ask` of a round in which some leaves are fixed: messages have these too.

    Args:
        ask: The server's access to its clients.
        halves: The algorithm whose local methods clients run.
        moves: What moves, as its `moves` call it.
        fixed: The leaves that are fixed.
    """

    def __init__(self, ask: Ask, halves: Halves, moves: str, fixed: Leaves):
        self._ask, self._halves, self._moves, self._fixed = ask, halves, moves, fixed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ask, name)

    def __call__(self, who: Any, method: Any, message: Any) -> Any:
        return self._ask(who, *self._halved(method, message))

    def draw(self, sampler: Any, method: Any = None, message: Any = None) -> Any:
        """Draw a cohort, to be asked once or several times."""
        return self._ask.draw(sampler) if method is None else self._ask.draw(sampler, *self._halved(method, message))

    def _halved(self, method: Any, message: Any) -> tuple[Any, Any]:
        """Return the local method of clients with fixed leaves, and its message."""
        if getattr(method, "__self__", None) is not self._halves.algorithm:
            raise UserError(f"{method.__name__} is a method of a part of the algorithm, which knows no fixed leaves: train both")
        return getattr(self._halves, f"{self._moves}_{method.__name__}"), (message, self._fixed)


class HalfClient(WrappedClient):
    """A client whose function is x -> f_i(x, z), z being leaves that are fixed.

    Args:
        client: The client.
        fixed: z, by name.
    """

    def __init__(self, client: Client, fixed: Leaves):
        super().__init__(client)
        self._fixed = fixed

    def _on(self, rows: Client) -> "HalfClient":
        return HalfClient(rows, self._fixed)

    def value(self, x):
        return self._client.value({**x, **self._fixed})

    def value_and_grad(self, x):
        value, gradient = self._client.value_and_grad({**x, **self._fixed})
        return value, {name: gradient[name] for name in x}

    def settle(self, x):
        return self._client.settle({**x, **self._fixed})

    def hvp(self, x, v):
        nothing = {name: np.zeros_like(leaf) for name, leaf in self._fixed.items()}
        product = self._client.hvp({**x, **self._fixed}, {**v, **nothing})
        return {name: product[name] for name in x}

    def hessian(self, x):
        whole = {**x, **self._fixed}
        marks = {name: np.full(np.shape(leaf), name in x) for name, leaf in whole.items()}
        inside = np.flatnonzero(np.concatenate([marks[name].ravel() for name in sorted(marks)]))
        return self._client.hessian(whole)[np.ix_(inside, inside)]
