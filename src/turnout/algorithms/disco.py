"""DiSCO: damped Newton steps by conjugate gradients, preconditioned with one client's Hessian."""

import math
from dataclasses import KW_ONLY, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from turnout.algorithms.learned_hessian import check_second_derivatives, mean_constants, side
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import Count, NonNegative, Positive, record
from turnout.core.replies import if_any
from turnout.core.tree import positive
from turnout.samplers import Delegate, Sampler

BETA = 0.05
"""The residual is `BETA` sqrt(mu / L) of the gradient, unless it is given."""


class Pcg(NamedTuple):
    """Conjugate gradients: v and H v, the residual r = g - H v, the direction u, and r.s of the step before."""

    v: Float[Array, " d"]
    product: Float[Array, " d"]
    residual: Float[Array, " d"]
    direction: Float[Array, " d"]
    square: Float[Array, ""]


@record
class Disco(Algorithm):
    """DiSCO (Zhang and Xiao, 2015, Algorithms 1 and 2), for any sampler.

    x <- x - v / (1 + M sqrt(v.Hv)), |H v - g| <= `relative` |g|, g and H the gradient and Hessian at x of
    f_S = sum_{i in S} (lambda_i / p_i) f_i. Conjugate gradients from v = 0 find v:

        s = P^-1 r, u <- s + (r.s / last r.s) u, a = r.s / u.Hu, v <- v + a u, r <- r - a H u,   P = grad^2 f_1(x) + lam I.

    The gradient is an exchange with S; each step of conjugate gradients is one with client 1, the delegate, which solves
    P s = r, and one with S, whose clients know x and multiply u with their Hessians.

    Let all clients take part, mu I <= grad^2 f <= L I, |f'''| <= 2 M (f'')^(3/2) along every line, `relative` be at most
    sqrt(mu / L) / 20, and n(x) = M sqrt(g . H^-1 g), omega(t) = t - log(1 + t). Then M^2 f falls by at least omega(n(x)) / 2 in
    each round, and omega(n(x)) halves where n(x) <= 1 / 6 (Theorem 1). With lam >= |grad^2 f(x) - grad^2 f_1(x)| the condition
    number is at most 1 + 2 lam / mu, so that v takes at most ceil(sqrt(1 + 2 lam / mu) log(2 sqrt(L / mu) / relative) / 2) steps.

    Args:
        sampler: Draws the cohort S of each round.
        lam: Weight of I in P, the paper's mu; theory wants the distance between the Hessians of f and f_1.
        relative: Residual relative to |g|; None means sqrt(mu / L) / 20, with the means of mu_i and L_i.
        products: Limit on the steps of conjugate gradients.
        concordance: M; (1 / 2) max |a| / sqrt(mu) for logistic regression with rows a.
        delegate: Draws client 1.

    Raises:
        UserError: Where the problem has no second derivatives, or `relative` is left out and mu or L is not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Disco(t.Full(), lam=2.0), problem, rounds=1)
        >>> trace.ledger.totals()["exchanges"]  # the gradient, and two for each of three unknowns
        7
    """

    sampler: Sampler
    lam: NonNegative
    _: KW_ONLY
    relative: Positive | None = None
    products: Count = 100
    concordance: Positive = 1.0
    delegate: Sampler = Delegate()

    cohorts_per_round = None

    def bind(self, problem):
        check_second_derivatives(self, problem)
        if self.relative is not None:
            return self
        mu, smoothness = mean_constants(problem)
        if not mu > 0:
            raise UserError(f"Disco needs relative: {type(problem).__name__} does not know how convex and smooth f is")
        return replace(self, relative=BETA * math.sqrt(mu / smoothness))

    def client_state(self, x):
        return x

    @property
    def _relative(self) -> Any:
        """The residual, which `bind` sets where it is not given."""
        return self.relative

    def round(self, ask, server):
        replies = ask(self.sampler, self.slope, server)
        ask.observe(replies)
        gradient, _ = ravel_pytree(replies.average())
        x, unravel = ravel_pytree(server)
        cohort, delegate = replace(replies.cohort, active=replies.answered), ask.draw(self.delegate)

        def step(pcg: Pcg) -> Pcg:
            s = ravel_pytree(ask(delegate, self.solve, (server, unravel(pcg.residual))).mean())[0]
            square = jnp.vdot(pcg.residual, s)
            u = s + square / pcg.square * pcg.direction
            product = ravel_pytree(ask(cohort, self.multiply, unravel(u)).average())[0]
            a = square / positive(jnp.vdot(u, product))
            return Pcg(pcg.v + a * u, pcg.product + a * product, pcg.residual - a * product, u, square)

        zero = jnp.zeros_like(x)
        goal = jnp.asarray(self._relative, x.dtype) * jnp.linalg.norm(gradient)
        first = Pcg(zero, zero, gradient, zero, jnp.asarray(jnp.inf, x.dtype))
        pcg = ask.loop(self.products, step, first, until=lambda pcg: jnp.linalg.norm(pcg.residual) <= goal)
        decrement = jnp.sqrt(jnp.maximum(jnp.vdot(pcg.v, pcg.product), 0))
        return if_any(replies, unravel(x - pcg.v / (1 + jnp.asarray(self.concordance, x.dtype) * decrement)), server)

    @on_client
    def slope(self, client, x):
        """grad f_i(x)."""
        return Done(client.grad(x), x)

    @on_client
    def multiply(self, client, u):
        """grad^2 f_i(x) u."""
        return Done(client.hvp(client.state, u))

    @on_client
    def solve(self, client, message):
        """(grad^2 f_1(x) + lam I)^-1 r."""
        x, residual = message
        flat, unravel = ravel_pytree(residual)
        matrix = client.hessian(x) + jnp.asarray(self.lam, flat.dtype) * jnp.eye(flat.size, dtype=flat.dtype)
        return Done(unravel(jnp.linalg.solve(matrix, flat)), queries=side(x))
