"""Rounds that alternate between the two matrices of adapters, of which one moves and is sent back."""

from functools import partial
from types import MethodType
from typing import Any, ClassVar

import numpy as np

from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.client import Client
from turnout.core.errors import UserError
from turnout.core.records import record, static
from turnout.problems.grouped import Leaves
from turnout.samplers.base import samplers_in

Names = tuple[str, ...]


@record
class Alternating(Algorithm):
    """The rounds of an algorithm with A fixed in odd rounds, and with B fixed in even ones (RoLoRA; Chen et al., 2025).

    The server's state is the parameters: messages have both matrices, since other clients moved the one that is fixed now.

    Args:
        algorithm: The algorithm, whose state is its parameters.
        a: Names of the leaves A.
        b: Names of the leaves B.
    """

    algorithm: Algorithm
    a: Names = static()
    b: Names = static()

    wraps: ClassVar[str] = "algorithm"

    cohorts_per_round = None

    def __getattr__(self, name: str) -> Any:
        """Return the local method `name` of the algorithm, "b_train" or "a_train", for clients with the other matrix fixed."""
        moves, _, inner = name.partition("_")
        method = getattr(self.__dict__.get("algorithm"), inner, None) if moves in ("a", "b") else None
        if method is None or not getattr(method, "on_client", False):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

        @on_client
        def on_half(self, client, message):
            message, fixed = message
            return method(HalfClient(client, fixed), message)

        on_half.__name__ = name
        return MethodType(on_half, self)

    def round(self, ask, server):
        halves = partial(self._half, ask, "b", self.a), partial(self._half, ask, "a", self.b)
        return ask.cond(ask.round % 2 == 1, *halves, server)

    def _half(self, ask: Ask, moves: str, names: Names, x: Leaves) -> Leaves:
        """Return the parameters after a round in which the leaves `names` are fixed."""
        fixed = {name: x[name] for name in names}
        inside = HalfAsk(ask, self, moves, fixed)
        return {**self.algorithm.round(inside, {name: leaf for name, leaf in x.items() if name not in fixed}), **fixed}


def alternating(algorithm: Algorithm, a: Names, b: Names, x: Leaves) -> Algorithm:
    """Return `algorithm` with rounds that alternate between the leaves `a` and `b`.

    Args:
        algorithm: The algorithm.
        a: Names of the leaves A; where there are none, the algorithm stays as it is.
        b: Names of the leaves B.
        x: The first parameters.

    Raises:
        UserError: The algorithm has a state beside its parameters, or a sampler learns from losses.
    """
    if not a:
        return algorithm
    own = type(algorithm)
    if own.start is not Algorithm.start or own.output is not Algorithm.output or algorithm.client_state(x) is not None:
        raise UserError(
            f"{own.__name__} has a state beside its parameters, which does not alternate between A and B: take an algorithm such "
            "as FedAvg, or trained = 'both'"
        )
    if any(sampler.feedback_kind == "loss" for sampler in samplers_in(algorithm)):
        raise UserError(
            "a sampler that learns from losses needs messages with all parameters, but adapters alternate: take another"
        )
    return Alternating(algorithm, a, b)


class HalfAsk:
    """The `ask` of a round in which some leaves are fixed: messages have these too.

    Args:
        ask: The server's access to its clients.
        alternating: The algorithm whose local methods clients run.
        moves: "a" or "b".
        fixed: The leaves that are fixed.
    """

    def __init__(self, ask: Ask, alternating: Alternating, moves: str, fixed: Leaves):
        self._ask, self._alternating, self._moves, self._fixed = ask, alternating, moves, fixed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ask, name)

    def __call__(self, who: Any, method: Any, message: Any) -> Any:
        return self._ask(who, *self._halved(method, message))

    def draw(self, sampler: Any, method: Any = None, message: Any = None) -> Any:
        """Draw a cohort, to be asked once or several times."""
        return self._ask.draw(sampler) if method is None else self._ask.draw(sampler, *self._halved(method, message))

    def _halved(self, method: Any, message: Any) -> tuple[Any, Any]:
        """Return the local method of clients with fixed leaves, and its message."""
        if getattr(method, "__self__", None) is not self._alternating.algorithm:
            raise UserError(f"{method.__name__} is a method of a part of the algorithm, which knows no fixed leaves: train both")
        return getattr(self._alternating, f"{self._moves}_{method.__name__}"), (message, self._fixed)


class HalfClient(Client):
    """A client whose function is x -> f_i(x, z), z being leaves that are fixed.

    Args:
        client: The client.
        fixed: z, by name.
    """

    def __init__(self, client: Client, fixed: Leaves):
        self._client, self._fixed = client, fixed
        self.id, self.key, self.state = client.id, client.key, client.state

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

    def batch(self, key, size):
        return self._on(self._client.batch(key, size))

    def passes(self, key, count, size, body, carry):
        return self._client.passes(key, count, size, lambda rows, carry: body(self._on(rows), carry), carry)

    def alone(self, f):
        return self._client.alone(f)

    def choose(self, number, branches):
        return self._client.choose(number, branches)

    def loop(self, count, body, carry):
        return self._client.loop(count, body, carry)

    def cond(self, predicate, then, otherwise, carry):
        return self._client.cond(predicate, then, otherwise, carry)
