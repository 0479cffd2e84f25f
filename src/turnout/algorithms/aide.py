"""AIDE: DANE, accelerated by Catalyst."""

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.algorithms.dane import Dane
from turnout.core.records import Count, Positive, record
from turnout.core.tree import add


class AideState(NamedTuple):
    """The parameters x, and y, around which the next round minimises."""

    x: PyTree
    y: PyTree


@record
class Aide(Dane):
    """AIDE, accelerated inexact DANE (Reddi, Konecny, Richtarik, Poczos and Smola, 2016, Algorithm 2), for any sampler.

    x <- `inner` rounds of DANE from x for h(z) = f(z) + (kappa / 2) |z - y|^2, which approximate argmin h, then
    y <- x + (1 - sqrt q) / (1 + sqrt q) (x - last x), q = mu / (mu + kappa); y = x at first.

    With kappa large enough the h_i are alike enough for DANE; the paper's zeta is sqrt q from the start. The slope of h at x is
    g + kappa (x - y), so that clients are asked as in `Dane`, with the weight lam + kappa: they do not see y.

    With the exact minimisers, f(x_t) - f(x*) <= (1 - sqrt q)^t (f(x_0) - f(x*) + (mu / 2) |x_0 - x*|^2) for mu-strongly convex f.

    Args:
        sampler: Draws the cohorts.
        solver: Finds y_i at the clients.
        lam: Weight of DANE's proximal term, >= 0.
        lr: Factor of the gradient of h, > 0.
        kappa: Weight of Catalyst's proximal term, the paper's tau.
        mu: Strong convexity of f.
        inner: Iterations of DANE in a round.

    Examples:
        >>> import turnout as t
        >>> problem, solver = t.Quadratic.random(clients=8, dimension=3, seed=0), t.client_solvers.NewtonCg()
        >>> trace = t.run(t.Aide(t.Full(), solver, kappa=5.0, mu=1.0, inner=3), problem, rounds=10)
        >>> trace.ledger.totals()["exchanges"]
        60
    """

    _: KW_ONLY
    kappa: Positive
    mu: Positive
    inner: Count = 10

    def start(self, ask, x):
        return AideState(x, x)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, y = server

        def iterate(z):
            pull = add(z, y, -1.0)
            return self.iterate(ask, z, lambda g: add(g, pull, self.kappa))

        new = ask.loop(self.inner, iterate, x)
        root = jnp.sqrt(jnp.asarray(self.mu / (self.mu + self.kappa)))
        return AideState(new, add(new, add(new, x, -1.0), (1 - root) / (1 + root)))

    def weight(self):
        return self.lam + self.kappa
