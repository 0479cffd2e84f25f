"""What every local solver is: a record that minimises one client's own function plus a linear and a quadratic term.

Local solvers run where the client runs. Those here use JAX's own loops, since their oracles are JAX functions.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PyTree

from turnout.core.client import Client
from turnout.core.errors import UserError
from turnout.core.records import record


class Tilt(NamedTuple):
    """What is added to f_i: phi(w) = f_i(w) - <w, linear> + (weight / 2) |w - centre|^2; None leaves its term out."""

    linear: PyTree | None = None
    weight: Any = 0.0
    centre: PyTree | None = None


class Solved(NamedTuple):
    """A minimiser of phi as far as it was found, the oracle queries made, and 1 if it is further from it than wanted."""

    point: PyTree
    queries: Any
    missed: Any


class Found(NamedTuple):
    """Where a search ended: w [d], phi's gradient [d] there (None if not computed), the queries made, and whether the search
    went on until rounding hid any progress.
    """

    w: Float[Array, " d"]
    gradient: Float[Array, " d"] | None
    queries: Any
    exhausted: Any = False


class LocalObjective(NamedTuple):
    """phi over vectors w [d], where the search starts, and how near its minimiser w* it has to end.

    With `delta`, |w - w*|^2 <= delta |start - w*|^2 is wanted, phi being `convexity`-strongly convex.
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
        """The Hessian of phi at w times v: one query."""
        product = ravel_pytree(self.client.hvp(self.unravel(w), self.unravel(v)))[0]
        return product if self.centre is None else product + self.weight * v

    def of(self, batch: Client) -> "LocalObjective":
        """Return phi with the mean over a batch of rows in the place of f_i."""
        return self._replace(client=batch)

    def reached(self, w: Float[Array, " d"], gradient: Float[Array, " d"], tolerance: Any = 0.0) -> Bool[Array, ""]:
        """Whether w is near enough to w*, phi's gradient there being given: with `delta` by the certificate

            |grad phi(w)| / convexity <= sqrt(delta) / (1 + sqrt(delta)) |start - w|,

        which is enough since |w - w*| <= |grad phi(w)| / convexity and |start - w*| >= |start - w| - |w - w*|; else if the
        gradient is no longer than `tolerance`.
        """
        if self.delta is not None:
            root = jnp.sqrt(jnp.asarray(self.delta))
            tolerance = self.convexity * root / (1 + root) * jnp.linalg.norm(self.start - w)
        return jnp.linalg.norm(gradient) <= tolerance


@record
class LocalSolver:
    """Minimises phi = f_i - <., linear> + (weight / 2) |. - centre|^2 on the client that holds f_i."""

    example = "t.client_solvers.NewtonCg()"

    def bind(self, problem) -> "LocalSolver":
        """Return this solver fitted to `problem`."""
        return self

    def search(self, phi: LocalObjective) -> Found:
        """Look for the minimiser of phi from `phi.start` until `phi.reached`, or as long as this solver is allowed to."""
        raise UserError(f"{type(self).__name__} has no search(self, phi): write one")

    def minimise(self, client: Client, tilt: Tilt, start: PyTree, delta: Any = None, convexity: Any = None) -> Solved:
        """Return argmin_w phi(w), searched for from `start`.

        With `delta` the search goes on until |w - w*|^2 <= delta |start - w*|^2 is certain (the oracle of inexact FedDCD), f_i
        being `convexity`-strongly convex, one number or [n]. `missed` tells that it gave up before, but not because of rounding.
        """
        first, unravel = ravel_pytree(start)
        linear, centre = (None if part is None else ravel_pytree(part)[0] for part in (tilt.linear, tilt.centre))
        weight = 0.0 if centre is None else tilt.weight
        convexity = weight if convexity is None else own(convexity, client.id) + weight
        phi = LocalObjective(client, unravel, linear, weight, centre, first, delta, convexity)
        w, gradient, queries, exhausted = client.alone(lambda: self.search(phi))
        if delta is None:
            return Solved(unravel(w), queries, jnp.zeros((), "int32"))
        if gradient is None:
            gradient, queries = phi.grad(w), queries + 1
        return Solved(unravel(w), queries, (~(phi.reached(w, gradient) | exhausted)).astype("int32"))


def own(constant: Any, i: Int[Array, ""]) -> Float[Array, ""]:
    """Return client i's entry of n numbers, or the one number given for all."""
    constant = jnp.asarray(constant, jnp.result_type(float))
    return constant[i] if constant.ndim else constant
