"""The interface of local solvers: records that minimise a client's own function plus a linear and a quadratic term.

Local solvers run at the client. Those here use the loops of JAX, as their oracles are JAX functions.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PyTree

from turnout.core.client import Client
from turnout.core.errors import UserError
from turnout.core.records import record


class Tilt(NamedTuple):
    """The terms added to f_i: phi(w) = f_i(w) - <w, linear> + (weight / 2) |w - centre|^2.

    Args:
        linear: Shaped like the parameters; None leaves the term out.
        weight: Weight of the quadratic term.
        centre: Shaped like the parameters; None leaves the term out.

    Examples:
        >>> import turnout as t
        >>> t.client_solvers.Tilt(weight=2.0)
        Tilt(linear=None, weight=2.0, centre=None)
    """

    linear: PyTree | None = None
    weight: Any = 0.0
    centre: PyTree | None = None


class Solution(NamedTuple):
    """The result of a local solver.

    Args:
        point: The approximate minimiser of phi, shaped like the parameters.
        queries: Number of oracle queries made.
        missed: 1 if the wanted accuracy was not reached, else 0.

    Examples:
        >>> import turnout as t
        >>> t.client_solvers.Solution(point=0.5, queries=3, missed=0).queries
        3
    """

    point: PyTree
    queries: Any
    missed: Any


class SearchResult(NamedTuple):
    """The end of a search.

    Args:
        w: The last point [d].
        gradient: phi's gradient [d] there; None if it was not computed.
        queries: Number of oracle queries made.
        exhausted: Whether the search went on until rounding hid any progress.
    """

    w: Float[Array, " d"]
    gradient: Float[Array, " d"] | None
    queries: Any
    exhausted: Any = False


class LocalObjective(NamedTuple):
    """phi over vectors w [d], the start of the search, and the wanted accuracy.

    Args:
        client: The client, whose oracle is that of f_i.
        unravel: Turns a vector into parameters.
        linear: The linear term [d], or None.
        weight: Weight of the quadratic term.
        centre: Centre of the quadratic term [d], or None.
        start: The first point [d].
        delta: Wanted accuracy |w - w*|^2 <= delta |start - w*|^2; None means the solver's own tolerance.
        convexity: The strong convexity of phi.
    """

    client: Client
    unravel: Any
    linear: Float[Array, " d"] | None
    weight: Any
    centre: Float[Array, " d"] | None
    start: Float[Array, " d"]
    delta: Any
    convexity: Any

    def value_and_grad(self, w: Float[Array, " d"]) -> tuple[Float[Array, ""], Float[Array, " d"]]:
        """phi and its gradient at w: one query."""
        value, gradient = self.client.value_and_grad(self.unravel(w))
        gradient = ravel_pytree(gradient)[0]
        if self.linear is not None:
            value, gradient = value - jnp.vdot(w, self.linear), gradient - self.linear
        if self.centre is not None:
            moved = w - self.centre
            value, gradient = value + self.weight / 2 * jnp.vdot(moved, moved), gradient + self.weight * moved
        return value, gradient

    def grad(self, w: Float[Array, " d"]) -> Float[Array, " d"]:
        """The gradient of phi at w: one query."""
        return self.value_and_grad(w)[1]

    def hvp(self, w: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """The Hessian of phi at w times v: one query.

        Args:
            w: Point [d].
            v: Direction [d].
        """
        product = ravel_pytree(self.client.hvp(self.unravel(w), self.unravel(v)))[0]
        return product if self.centre is None else product + self.weight * v

    def of(self, batch: Client) -> "LocalObjective":
        """Return phi with the mean over a batch of rows in the place of f_i."""
        return self._replace(client=batch)

    def reached(self, w: Float[Array, " d"], gradient: Float[Array, " d"], tolerance: Any = 0.0) -> Bool[Array, ""]:
        """Return whether w is accurate enough, given phi's gradient at w.

        With `delta` by the certificate |grad phi(w)| / convexity <= sqrt(delta) / (1 + sqrt(delta)) |start - w|, which suffices
        as |w - w*| <= |grad phi(w)| / convexity and |start - w*| >= |start - w| - |w - w*|; else by |grad phi(w)| <= `tolerance`.

        Args:
            w: Point [d].
            gradient: Gradient of phi at w [d].
            tolerance: Norm of the gradient that is small enough, where no `delta` is given.
        """
        if self.delta is not None:
            root = jnp.sqrt(jnp.asarray(self.delta))
            tolerance = self.convexity * root / (1 + root) * jnp.linalg.norm(self.start - w)
        return jnp.linalg.norm(gradient) <= tolerance


@record
class LocalSolver:
    """A solver of phi(w) = f_i(w) - <w, linear> + (weight / 2) |w - centre|^2 at the client that holds f_i.

    Subclasses write `search`, or `minimise` itself.

    Examples:
        >>> import turnout as t
        >>> isinstance(t.client_solvers.Sgd(0.1, batch=1, epochs=1), t.client_solvers.LocalSolver)
        True
    """

    example = "t.client_solvers.NewtonCg()"

    def bind(self, problem) -> "LocalSolver":
        """Return this solver fitted to `problem`."""
        return self

    def search(self, phi: LocalObjective) -> SearchResult:
        """Search for the minimiser of phi from `phi.start` until `phi.reached`, or up to the limits of this solver."""
        raise UserError(f"{type(self).__name__} has no search(self, phi): write one")

    def minimise(self, client: Client, tilt: Tilt, start: PyTree, delta: Any = None, convexity: Any = None) -> Solution:
        """Return an approximate minimiser of phi.

        Args:
            client: The client that holds f_i.
            tilt: The linear and the quadratic term.
            start: The first point, shaped like the parameters.
            delta: With it the search goes on until |w - w*|^2 <= delta |start - w*|^2 is certain (the oracle of inexact FedDCD).
                `missed` is 1 where it ended before, unless rounding hid any progress.
            convexity: The strong convexity of f_i, one number or [n]; None means 0.
        """
        first, unravel = ravel_pytree(start)
        linear, centre = (None if part is None else ravel_pytree(part)[0] for part in (tilt.linear, tilt.centre))
        weight = 0.0 if centre is None else tilt.weight
        convexity = weight if convexity is None else of_client(convexity, client.id) + weight
        phi = LocalObjective(client, unravel, linear, weight, centre, first, delta, convexity)
        w, gradient, queries, exhausted = client.alone(lambda: self.search(phi))
        queries = queries + client.settle(unravel(w))
        if delta is None:
            return Solution(unravel(w), queries, jnp.zeros((), "int32"))
        if gradient is None:
            gradient, queries = phi.grad(w), queries + 1
        return Solution(unravel(w), queries, (~(phi.reached(w, gradient) | exhausted)).astype("int32"))


def of_client(constant: Any, i: Int[Array, ""]) -> Float[Array, ""]:
    """Return client i's entry of `constant` [n], or the one number that all clients share.

    Args:
        constant: One number, or [n].
        i: Id of the client.
    """
    constant = jnp.asarray(constant, jnp.result_type(float))
    return constant[i] if constant.ndim else constant


def fit_each(algorithm: Any, problem: Any, *names: str) -> Any:
    """Return the record `algorithm` with lists in its fields `names` turned into arrays [n], for `of_client`.

    Args:
        algorithm: The record.
        problem: The problem.
        *names: Fields that hold one number, or one for each client.

    Raises:
        UserError: If a list does not hold one number for each client of `problem`.
    """
    given = {name: getattr(algorithm, name) for name in names}
    lists = {name: np.asarray(value, float) for name, value in given.items() if isinstance(value, (list, tuple, np.ndarray))}
    for name, values in lists.items():
        if values.shape != (problem.clients,):
            raise UserError(
                f"{type(algorithm).__name__}.{name} must be one number, or a list of {problem.clients}, one for each client"
            )
    return replace(algorithm, **lists)


def check_twice_differentiable(solver: Any, problem) -> None:
    """Check that `problem` has the second derivatives that `solver` needs.

    Args:
        solver: The solver.
        problem: The problem.

    Raises:
        UserError: If not.
    """
    if not problem.twice_differentiable:
        name, kind = type(solver).__name__, type(problem).__name__
        raise UserError(f"solver {name} needs second derivatives: {kind} has none, take a first-order one")
