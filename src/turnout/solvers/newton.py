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
"""Products with the Hessian stop once the squared residual has fallen by this factor."""


@record
class Newton(LineSearch):
    """y <- y - (grad^2 phi(y))^-1 grad phi(y), halving the step until phi decreases enough.

    `hessian` = "matrix": each reply holds the client's [d, d] Hessian, 1 + d queries. "products": after each accepted point up to
    `products` steps of conjugate gradients, each an exchange that sends y and v down and brings the Hessian times v up.
    """

    hessian: Literal["matrix", "products"] = static(default="matrix")
    products: Count = 20

    needs_hessian = True

    def learn(self, phi):
        return None

    def evaluate(self, ask, phi, y):
        if self.hessian == "products":
            return super().evaluate(ask, phi, y)
        return exchange(ask, phi, self.second_order, phi.unravel(y)).average()

    def direct(self, ask, phi, state, new, reply):
        return None, -self.solve(ask, phi, new, reply)

    def solve(self, ask, phi: Proximal, new: Search, hessian) -> Float[Array, " d"]:
        """Return (grad^2 phi(y))^-1 grad phi(y) at the point `new`."""
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
    """y <- y - a H^-1 g, a = (sqrt(1 + 2 G) - 1) / G, G = `concordance` sqrt(g . H^-1 g), with g and H of phi at y.

    The affine-invariant cubic Newton method (Hanzely et al., 2022, Algorithm 1): its damping needs no line search, so that no
    exchange is ever rejected, where `concordance` is at least the constant of semi-strong self-concordance.
    """

    concordance: Positive = 1.0

    def enough(self, state, value, gradient):
        return jnp.asarray(True)

    def direct(self, ask, phi, state, new, reply):
        newton = self.solve(ask, phi, new, reply)
        scaled = self.concordance * jnp.sqrt(jnp.maximum(jnp.vdot(new.gradient, newton), 0))
        # (sqrt(1 + 2 G) - 1) / G without the cancellation at small G.
        return None, -2 / (jnp.sqrt(1 + 2 * scaled) + 1) * newton


def _nonzero(a: Float[Array, ""]) -> Float[Array, ""]:
    return jnp.where(a == 0, 1, a)
