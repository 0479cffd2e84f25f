"""Cohort solvers with second derivatives, as matrices or as products, priced by what they send."""

from typing import Literal

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record, static
from turnout.solvers.base import Proximal, exchange
from turnout.solvers.line_search import LineSearch, Search

SMALL = 1e-24
"""Factor of the squared residual at which products with the Hessian stop."""


@record
class Newton(LineSearch):
    """Newton's method with a line search: y <- y - (grad^2 phi(y))^-1 grad phi(y).

    Args:
        smoothness: L; None means max_i L_i of the problem.
        convexity: mu; None means min_i mu_i of the problem.
        hessian: "matrix": each reply holds the client's [d, d] Hessian, 1 + d queries. "products": conjugate gradients follow
            each accepted point; each of their steps is an exchange with y and v down and the Hessian times v up.
        products: Limit on the steps of conjugate gradients.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(4), t.solvers.Newton(), gamma=1.0, inner=4), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        20
    """

    hessian: Literal["matrix", "products"] = static(default="matrix")
    products: Count = 20

    needs_hessian = True

    def initial_memory(self, phi):
        return None

    def evaluate(self, ask, phi, y):
        if self.hessian == "products":
            return super().evaluate(ask, phi, y)
        return exchange(ask, phi, self.second_order, phi.unravel(y)).average()

    def direction(self, ask, phi, state, new, reply):
        return None, -self.solve(ask, phi, new, reply)

    def solve(self, ask, phi: Proximal, new: Search, hessian) -> Float[Array, " d"]:
        """Return (grad^2 phi(y))^-1 grad phi(y) at the point `new`.

        Args:
            ask: Access to the clients.
            phi: The subproblem.
            new: State at the accepted point.
            hessian: Hessian of f_S there; None where products are used.
        """
        if self.hessian == "matrix":
            return jnp.linalg.solve(hessian + phi.convexity * jnp.eye(new.y.size, dtype=new.y.dtype), new.gradient)

        def times(v):
            product = ask(phi.cohort, self.product, (phi.unravel(new.y), phi.unravel(v))).average()
            return ravel_pytree(product)[0] + phi.convexity * v

        def body(carry):
            p, r, v, square = carry
            product = times(v)
            length = square / _nonzero(jnp.vdot(v, product))
            p, r = p + length * v, r - length * product
            new_square = jnp.vdot(r, r)
            return p, r, r + new_square / _nonzero(square) * v, new_square

        square = jnp.vdot(new.gradient, new.gradient)
        first = jnp.zeros_like(new.y), new.gradient, new.gradient, square
        return ask.loop(self.products, body, first, until=lambda carry: carry[3] <= SMALL * square)[0]

    @on_client
    def second_order(self, client, x):
        """f_i, its gradient and its Hessian [d, d]."""
        value, gradient = client.value_and_grad(x)
        hessian = client.hessian(x)
        return Done((value, gradient, hessian), queries=1 + hessian.shape[0])

    @on_client
    def product(self, client, message):
        """The Hessian of f_i at x times v."""
        x, v = message
        return Done(client.hvp(x, v))


@record
class Aicn(Newton):
    """AICN, the affine-invariant cubic Newton method (Hanzely et al., 2022, Algorithm 1).

    y <- y - a H^-1 g, a = (sqrt(1 + 2 G) - 1) / G, G = `concordance` sqrt(g . H^-1 g), with g and H of phi at y. The damping
    replaces the line search, and no exchange is rejected.

    Args:
        smoothness: L; None means max_i L_i of the problem.
        convexity: mu; None means min_i mu_i of the problem.
        hessian: As in `Newton`.
        products: As in `Newton`.
        concordance: At least the constant of semi-strong self-concordance.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Sppm(t.Nice(4), t.solvers.Aicn(), gamma=1.0, inner=4), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        20
    """

    concordance: Positive = 1.0

    def enough(self, state, value, gradient):
        return jnp.asarray(True)

    def direction(self, ask, phi, state, new, reply):
        newton = self.solve(ask, phi, new, reply)
        scaled = self.concordance * jnp.sqrt(jnp.maximum(jnp.vdot(new.gradient, newton), 0))
        # (sqrt(1 + 2 G) - 1) / G without the cancellation at small G.
        return None, -2 / (jnp.sqrt(1 + 2 * scaled) + 1) * newton


def _nonzero(a: Float[Array, ""]) -> Float[Array, ""]:
    return jnp.where(a == 0, 1, a)
