"""Catalyzed SVRP: SVRP within accelerated proximal points."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.algorithms.svrp import Svrp, SvrpState
from turnout.core.records import Count, Positive, record
from turnout.core.tree import add, zeros
from turnout.estimators.svrg import Anchor


class CatalyzedSvrpState(NamedTuple):
    """The parameters x, the centre y, and the last anchor."""

    x: PyTree
    y: PyTree
    anchor: Anchor


@record
class CatalyzedSvrp(Svrp):
    """Catalyzed SVRP, accelerated by Catalyst (Khaled and Jin, 2022; Lin et al., 2015).

    x_t ~ argmin_z h(z), h(z) = f(z) + (kappa / 2) |z - y|^2, by `inner` iterations of `Svrp` on h from x_{t-1} and w = x_{t-1};
    then y <- x_t + (1 - sqrt(q)) / (1 + sqrt(q)) (x_t - x_{t-1}), q = mu / (mu + kappa), from y = x_0.

    A round is a full pass and `inner` iterations. A client adds (kappa / 2) |z - y|^2 to its own function, which changes centre
    and weight of its proximal term, so that messages are those of `Svrp`.

    With the exact minimisers, f(x_t) - f(x*) <= (1 - sqrt(q))^t (f(x_0) - f(x*) + (mu / 2) |x_0 - x*|^2) for a mu-strongly convex
    f. As h is (mu + kappa)-strongly convex, theory wants gamma = (mu + kappa) / (2 delta^2). With p = 1 / n and kappa =
    delta / sqrt(n) - mu, if that is positive, the inner factor is then about 1 - 1 / (2 n).

    Args:
        sampler: Draws the cohorts.
        solver: Finds the proximal points at the clients.
        gamma: Step size of the proximal points; theory wants (mu + kappa) / (2 delta^2).
        probability: p, in (0, 1]; None means m / n, for cohorts of m out of n clients.
        anchors: Makes the full passes. Set by `bind`.
        kappa: Weight of Catalyst's proximal term.
        mu: Strong convexity of f.
        inner: Iterations of SVRP in a round.

    Examples:
        >>> import turnout as t
        >>> problem, solver = t.Quadratic.random(clients=8, dimension=3, seed=0), t.client_solvers.NewtonCg()
        >>> catalyzed = t.CatalyzedSvrp(t.Nice(2), solver, gamma=0.2, kappa=2.0, mu=1.0, inner=8)
        >>> t.run(catalyzed, problem, rounds=10).ledger.totals()["draws_random"]
        80
    """

    kappa: Positive
    mu: Positive
    inner: Count = 10

    def start(self, ask, x):
        return CatalyzedSvrpState(x, x, Anchor(x, zeros(x)))

    def round(self, ask, server):
        x, y, anchor = server

        def iterate(state: SvrpState) -> SvrpState:
            share = self.gamma * self.kappa / (1 + self.gamma * self.kappa)
            return self.iterate(ask, state, jax.tree.map(lambda z, y: z + share * (y - z), self.centre(state), y))

        new, anchor = ask.loop(self.inner, iterate, SvrpState(x, self.anchors.anchored(ask, x, anchor)))
        root = jnp.sqrt(jnp.asarray(self.mu / (self.mu + self.kappa)))
        return CatalyzedSvrpState(new, add(new, add(new, x, -1.0), (1 - root) / (1 + root)), anchor)

    def weight(self):
        return 1 / self.gamma + self.kappa
