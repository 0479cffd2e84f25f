"""SABER: proximal points of random clients along an estimate of the gradient."""

from dataclasses import field, replace
from operator import methodcaller
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.algorithms.followed import Followed
from turnout.algorithms.icgm import Server
from turnout.algorithms.passes import Gradients, everyone
from turnout.client_solvers import LocalSolver, Tilt
from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record
from turnout.core.tree import add, zeros
from turnout.estimators import Estimator, Sarah
from turnout.estimators.base import Estimate
from turnout.samplers import Full, Sampler


class Shifted(Algorithm):
    """Clients can be asked for x_i = argmin_w f_i(w) + <v - grad f_i(x), w> + (lam / 2) |w - x|^2."""

    solver: LocalSolver
    lam: Any

    @on_client
    def move(self, client, message):
        """x_i - x."""
        x, v = message
        solved = self.solver.minimise(client, Tilt(add(client.grad(x), v, -1.0), self.lam, x), x)
        return Done(add(solved.point, x, -1.0), queries=solved.queries + 1)


@record
class SaberFull(Shifted, Followed):
    """x+ = argmin_w f_j(w) + <v - grad f_j(x), w> + (lam / 2) |w - x|^2 of one random client j, found by `solver`;

    v <- grad f(x+) with chance p, else v + grad f_S(x+) - grad f_S(x), f_S = sum_{i in S} (lambda_i / p_i) f_i.

    SABER-full (Mishchenko et al., 2024, Algorithm 1; cost-aware client selection, appendix A), v being the `estimator` "sarah"
    with `probability` = p, m / n unless given: it begins with a full pass. In theory lam is about Delta_max.
    """

    solver: LocalSolver
    lam: Positive
    estimator: Estimator = field(default=Sarah(), kw_only=True)


@record
class SaberPartial(Shifted, Gradients):
    """x+ = mean_{i in S} of argmin_w f_i(w) + <v - grad f_i(x), w> + (lam / 2) |w - x|^2, found by `solver`;

    v <- grad f_S'(x+), f_S' = sum_{i in S'} (lambda_i / p_i) f_i, and v = grad f(x_0) by a full pass at first.

    SABER-partial (Mishchenko et al., 2024, Algorithm 2 with p = 1; cost-aware client selection, appendix A). S and S' are
    `cohorts` = s / m cohorts each, one after the other, over which the means are taken; the paper draws its s clients with
    replacement, which here they are from cohort to cohort. It stops at a floor that the draws cause. The paper's rounds begin
    with v: here each ends with it, and the iterates are the same.
    """

    sampler: Sampler
    solver: LocalSolver
    lam: Positive
    cohorts: Count = 1
    everyone: Full = field(default=Full(), repr=False)

    def bind(self, problem):
        return replace(self, everyone=everyone(self.sampler, problem.population))

    def start(self, ask, x):
        return Server(x, Estimate(ask(self.everyone, self.gradient, x).mean()))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, v = server.x, server.estimate.gradient
        x = add(x, self._mean(ask, self.move, (x, v), methodcaller("mean"), x))
        return Server(x, Estimate(self._mean(ask, self.gradient, x, methodcaller("average"), x)))

    def _mean(self, ask: Ask, method, message, of, like: PyTree) -> PyTree:
        """Return the mean over the cohorts of what `of` makes of their replies, shaped like the parameters `like`."""

        def one(total):
            replies = ask(self.sampler, method, message)
            ask.observe(replies)
            return add(total, of(replies))

        total = ask.loop(self.cohorts, one, zeros(like))
        return jax.tree.map(lambda total: total / jnp.asarray(self.cohorts, total.dtype), total)
