"""SABER: proximal points of random clients along an estimate of the gradient."""

from dataclasses import field, replace
from operator import methodcaller

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.algorithms.estimated import Estimated
from turnout.client_solvers import LocalSolver, Tilt
from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.client import Client, Done
from turnout.core.records import Count, Positive, record
from turnout.core.tree import add, zeros
from turnout.estimators import Estimator, Sarah
from turnout.samplers import Full, Nice, Sampler
from turnout.samplers.full_pass import full_pass


@record
class SaberFull(Estimated):
    """SABER-full (Mishchenko et al., 2024, Algorithm 1; Cost-aware client selection, appendix A).

    x+ = argmin_w f_j(w) + <v - grad f_j(x), w> + (lam / 2) |w - x|^2 of one random client j, found by `solver`; then
    v <- grad f(x+) with probability p, else v + grad f_S(x+) - grad f_S(x), f_S = sum_{i in S} (lambda_i / p_i) f_i.

    v is made by the `estimator`, by default `Sarah` with `probability` = p, which begins with a full pass. In theory lam is about
    Delta_max. The paper's rounds begin with v; here each round ends with it, and the iterates are the same.

    Args:
        sampler: Draws the cohorts S of the estimator.
        solver: Finds the proximal point of client j.
        lam: Weight of the proximal term.
        estimator: Makes v; any gradient estimator.
        one: Draws the client j.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.SaberFull(t.Nice(2), t.client_solvers.NewtonCg(), lam=5.0), problem, rounds=10)
        >>> trace.ledger.totals()["draws_random"]
        16
    """

    solver: LocalSolver
    lam: Positive
    estimator: Estimator = field(default=Sarah(), kw_only=True)
    one: Sampler = field(default=Nice(1), repr=False, kw_only=True)

    def round(self, ask, server):
        x, estimate = server
        new = add(x, ask(self.one, self.move, (x, estimate.gradient)).mean())
        return new, self.estimator.step(ask, self.sampler, new, x, estimate)

    @on_client
    def move(self, client, message):
        """x+ - x."""
        return proximal_step(self.solver, client, *message, self.lam)


@record
class SaberPartial(Algorithm):
    """SABER-partial (Mishchenko et al., 2024, Algorithm 2 with p = 1; Cost-aware client selection, appendix A).

    x+ = mean_{i in S} of argmin_w f_i(w) + <v - grad f_i(x), w> + (lam / 2) |w - x|^2, found by `solver`; then
    v <- grad f_S'(x+), f_S' = sum_{i in S'} (lambda_i / p_i) f_i; v = grad f(x_0) by a full pass at first.

    S and S' are `cohorts` = s / m cohorts each, one after the other, over which the means are taken. The paper draws its s
    clients with replacement; here clients repeat only from cohort to cohort. The iterates stop at a floor that the draws cause.
    The paper's rounds begin with v; here each round ends with it, and the iterates are the same.

    Args:
        sampler: Draws the cohorts of S and S'.
        solver: Finds the proximal points of the clients.
        lam: Weight of the proximal term.
        cohorts: Number of cohorts in each of S and S'.
        everyone: Sampler of the full pass. Set by `bind`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.SaberPartial(t.Nice(2), t.client_solvers.NewtonCg(), lam=5.0, cohorts=2), problem, rounds=10)
        >>> trace.ledger.totals()["draws_random"]
        40
    """

    sampler: Sampler
    solver: LocalSolver
    lam: Positive
    cohorts: Count = 1
    everyone: Full = field(default=Full(), repr=False, kw_only=True)

    cohorts_per_round = None

    def bind(self, problem):
        return replace(self, everyone=full_pass(self.sampler, problem.population))

    def start(self, ask, x):
        return x, ask(self.everyone, self.gradient, x).mean()

    def output(self, server):
        return server[0]

    def round(self, ask, server):
        x, v = server
        x = add(x, self._mean(ask, self.move, (x, v), methodcaller("mean"), x))
        return x, self._mean(ask, self.gradient, x, methodcaller("average"), x)

    def _mean(self, ask: Ask, method, message, reduce, like: PyTree) -> PyTree:
        """Return the mean of `reduce(replies)` over the cohorts, shaped like the parameters `like`."""

        def add_cohort(total):
            replies = ask(self.sampler, method, message)
            ask.observe(replies)
            return add(total, reduce(replies))

        total = ask.loop(self.cohorts, add_cohort, zeros(like))
        return jax.tree.map(lambda total: total / jnp.asarray(self.cohorts, total.dtype), total)

    @on_client
    def gradient(self, client, x):
        """grad f_i(x)."""
        return Done(client.grad(x))

    @on_client
    def move(self, client, message):
        """x_i - x."""
        return proximal_step(self.solver, client, *message, self.lam)


def proximal_step(solver: LocalSolver, client: Client, x: PyTree, v: PyTree, lam) -> Done:
    """Reply with x_i - x, x_i = argmin_w f_i(w) + <v - grad f_i(x), w> + (lam / 2) |w - x|^2.

    Args:
        solver: Solves the subproblem.
        client: The client.
        x: Parameters.
        v: Estimate of grad f(x).
        lam: Weight of the proximal term.
    """
    solved = solver.minimise(client, Tilt(add(client.grad(x), v, -1.0), lam, x), x)
    return Done(add(solved.point, x, -1.0), queries=solved.queries + 1)
