"""What a local method sees of its client, and what it returns."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree


class Done(NamedTuple):
    """What a local method returns: the reply, the client's new private state, and how many oracle queries it made.

    `missed` counts local problems that were not solved as well as wanted; any is an error of the run.
    """

    reply: Any
    state: Any = None
    queries: Any = 1
    missed: Any = 0


class Client(ABC):
    """What a local method sees: its own id, key, private state and oracle for f_i, and nothing else."""

    id: Any
    key: Any
    state: PyTree

    @abstractmethod
    def value(self, x: PyTree) -> Float[Array, ""]:
        """f_i(x)."""

    @abstractmethod
    def value_and_grad(self, x: PyTree) -> tuple[Float[Array, ""], PyTree]:
        """f_i(x) and its gradient."""

    @abstractmethod
    def hvp(self, x: PyTree, v: PyTree) -> PyTree:
        """The Hessian of f_i at x times v."""

    @abstractmethod
    def hessian(self, x: PyTree) -> Float[Array, "d d"]:
        """The Hessian of f_i at x, over the parameters as one vector."""

    @abstractmethod
    def batch(self, key, size: int) -> "Client":
        """This client with the mean over `size` of its rows, drawn uniformly with replacement, in the place of f_i."""

    @abstractmethod
    def passes(self, key, count, size: int, body: Callable[["Client", PyTree], PyTree], carry: PyTree) -> tuple[PyTree, Any]:
        """Apply `carry = body(batch, carry)` to every batch of `count` passes over the n_i rows; also return how many batches.

        Each pass is in a random order of its own and has ceil(n_i / size) batches of `size` rows, fewer in the last; `batch` is
        this client with the mean over these rows in the place of f_i.
        """

    def grad(self, x: PyTree) -> PyTree:
        """The gradient of f_i at x."""
        return self.value_and_grad(x)[1]

    def alone(self, f: Callable[[], PyTree]) -> PyTree:
        """Return f(), which loops until it is done: an engine that works on a cohort at once may do so for one after another."""
        return f()

    def choose(self, number, branches: list[Callable[[], PyTree]]) -> PyTree:
        """Return branches[number](): an engine that works on a cohort at once may compute all of them."""
        return jax.tree.map(lambda *found: jnp.stack(found)[number], *(branch() for branch in branches))

    @abstractmethod
    def loop(self, count, body: Callable, carry: PyTree) -> PyTree:
        """Apply `carry = body(carry)` `count` times, in whatever the oracle is written in."""

    @abstractmethod
    def cond(self, predicate, then: Callable, otherwise: Callable, carry: PyTree) -> PyTree:
        """Return `then(carry)` or `otherwise(carry)`.

        Let the message decide, as far as possible: where clients of one cohort differ, all of them may compute both.
        """
