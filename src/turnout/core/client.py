"""The client as a local method sees it, and what a local method returns."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from turnout.core.errors import UserError
from turnout.core.tree import add


class Done(NamedTuple):
    """The result of a local method.

    Args:
        reply: Pytree of arrays that goes to the server.
        state: The client's new private state; None keeps the old one.
        queries: Number of oracle queries made, one for a value, a gradient, both at once, or a Hessian-vector product.
        missed: Number of local problems not solved to the required accuracy; the run ends with an error if there are any.

    Examples:
        >>> import turnout as t
        >>> t.Done(reply=1.5, queries=2)
        Done(reply=1.5, state=None, queries=2, missed=0)
    """

    reply: Any
    state: Any = None
    queries: Any = 1
    missed: Any = 0


class Client(ABC):
    """A client in a local method: its id, random key, private state, and the oracle of its f_i; nothing else is visible.

    Args:
        id: Number of the client, 0 to n - 1.
        key: Random key of this client in this exchange.
        state: The client's private state.

    Examples:
        >>> import turnout as t
        >>> @t.record
        ... class Local(t.Algorithm):
        ...     sampler: t.Sampler
        ...
        ...     def round(self, ask, x):
        ...         return ask(self.sampler, self.step, x).mean()
        ...
        ...     @t.on_client
        ...     def step(self, client, x):
        ...         y = client.loop(3, lambda y: y - 0.1 * client.grad(y), x)
        ...         return t.Done(y, queries=3)
        >>> problem = t.Quadratic.random(clients=10, dimension=2, seed=0)
        >>> t.run(Local(t.Nice(3)), problem, rounds=2).ledger.totals()["queries_total"]
        18
    """

    id: Any
    key: Any
    state: PyTree

    trains_itself: bool = False
    """Whether it has no gradients, and makes local steps by itself: `trained`."""

    def with_state(self, state: PyTree) -> "Client":
        """Return this client with another private state."""
        client = copy(self)
        client.state = state
        return client

    def with_key(self, key) -> "Client":
        """Return this client with another random key."""
        client = copy(self)
        client.key = key
        return client

    @abstractmethod
    def value(self, x: PyTree) -> Float[Array, ""]:
        """Return f_i(x)."""

    @abstractmethod
    def value_and_grad(self, x: PyTree) -> tuple[Float[Array, ""], PyTree]:
        """Return f_i(x) and its gradient."""

    @abstractmethod
    def hvp(self, x: PyTree, v: PyTree) -> PyTree:
        """Return the Hessian of f_i at x times v.

        Args:
            x: Parameters.
            v: Direction, shaped like the parameters.
        """

    @abstractmethod
    def hessian(self, x: PyTree) -> Float[Array, "d d"]:
        """Return the Hessian of f_i at x, for the parameters as one vector."""

    @abstractmethod
    def batch(self, key, size: int) -> "Client":
        """Return this client with f_i replaced by the mean over `size` of its rows, drawn uniformly with replacement.

        Args:
            key: Random key.
            size: Number of rows.
        """

    @abstractmethod
    def passes(self, key, count, size: int, body: Callable[["Client", PyTree], PyTree], carry: PyTree) -> tuple[PyTree, Any]:
        """Apply `carry = body(batch, carry)` to each batch of `count` passes over the n_i rows; also return how many batches.

        Each pass has a random order of its own and ceil(n_i / size) batches of `size` rows, fewer in the last. `batch` is this
        client with f_i replaced by the mean over the rows of the batch.

        Args:
            key: Random key of the orders.
            count: Number of passes.
            size: Rows of a batch.
            body: Returns the next carry, given a batch and the carry.
            carry: Initial value.
        """

    def grad(self, x: PyTree) -> PyTree:
        """Return the gradient of f_i at x."""
        return self.value_and_grad(x)[1]

    def step(self, x: PyTree, factor) -> PyTree:
        """Return x + factor grad f_i(x).

        Args:
            x: Parameters.
            factor: The negative step size.
        """
        return add(x, self.grad(x), factor)

    def trained(self, x: PyTree, work: dict[str, Any]) -> PyTree:
        """Return what the client's own training makes of x, of which no step is seen, where it `trains_itself`.

        Args:
            x: Parameters.
            work: What the algorithm asks for: those of "lr", "steps", "batch" and "epochs" that are given.
        """
        raise UserError("this client has gradients, and no training of its own: take steps with client.grad")

    def alone(self, f: Callable[[], PyTree]) -> PyTree:
        """Return f(), a loop of unknown length; an engine that computes a cohort at once may run the clients one by one here."""
        return f()

    def settle(self, x: PyTree) -> Any:
        """End a search that had loops of its own, at x: do what gradients outside of it do, and return how many queries it took.

        Args:
            x: The parameters that were found.
        """
        return 0

    def choose(self, number, branches: list[Callable[[], PyTree]]) -> PyTree:
        """Return branches[number](); an engine that computes a cohort at once may compute all branches.

        Args:
            number: Which branch to take, from 0.
            branches: Functions without arguments, whose results have one structure.
        """
        return jax.tree.map(lambda *results: jnp.stack(results)[number], *(branch() for branch in branches))

    @abstractmethod
    def loop(self, count, body: Callable, carry: PyTree) -> PyTree:
        """Apply `carry = body(carry)` `count` times, as a loop of JAX or of Python, as the oracle needs.

        Args:
            count: Number of iterations.
            body: One iteration.
            carry: Initial value.
        """

    @abstractmethod
    def cond(self, predicate, then: Callable, otherwise: Callable, carry: PyTree) -> PyTree:
        """Return `then(carry)` or `otherwise(carry)`.

        Where the predicate depends on the message only, one branch is computed; where it differs within a cohort, maybe both.

        Args:
            predicate: Condition.
            then: Branch where it holds.
            otherwise: Branch where it does not.
            carry: Argument of the branch.
        """
