"""FedExProx: an extrapolated mean of the clients' proximal points."""

from dataclasses import KW_ONLY
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from turnout.client_solvers import LocalSolver, Tilt
from turnout.client_solvers.base import of_client
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.local_methods import norm
from turnout.core.records import Positive, record, static
from turnout.core.tree import add, positive
from turnout.samplers import Sampler


@record
class FedExProx(Algorithm):
    """FedExProx: extrapolated mean of proximal points (Li, Acharya and Richtarik, 2024, Algorithm 1).

    x <- x + alpha (mean_{i in S} x_i - x), x_i = prox_{gamma f_i}(x) = argmin_y f_i(y) + |y - x|^2 / (2 gamma).

    alpha is a constant, or adaptive by one of two rules of the paper:

    * "grads" (FedExProx-GraDS, gradient diversity): alpha = mean |x_i - x|^2 / |mean (x_i - x)|^2, which is at least 1.
    * "stops" (FedExProx-StoPS, stochastic Polyak): alpha = gamma mean (M_i(x) - inf f_i) / |mean (x_i - x)|^2 with the Moreau
      envelope M_i(x) = f_i(x_i) + |x_i - x|^2 / (2 gamma); it is at least 1 / (2 gamma L_gamma) in full participation, with the
      smoothness L_gamma of sum_i lambda_i M_i.

    The means are over the clients that answered, weighted by lambda_i. Each of the rules takes one more number up, "stops" one
    more query too. The theory is for convex, L-smooth f_i with a common minimiser x*, else x stops at another point. In full
    participation |x - x*|^2 falls by at least c (M(x) - M(x*)) in a round, M = sum_i lambda_i M_i, where c is

        alpha gamma (2 - alpha gamma L_gamma),  alpha gamma (2 - gamma L / (1 + gamma L)),  alpha gamma

    for constant alpha, "grads" and "stops"; M(x) - M(x*) >= (f(x) - f(x*)) / (1 + gamma L).

    Args:
        sampler: Draws the cohort S of each round.
        solver: Finds x_i at the clients.
        gamma: Step size of the proximal points.
        alpha: Constant extrapolation, > 0; theory wants 1 / (gamma L_gamma) in full participation. None means adaptive.
        rule: How an adaptive alpha is found, "grads" or "stops".
        minimum: inf f_i for "stops", one number or [n].

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, spread=0.0, seed=0)
        >>> trace = t.run(t.FedExProx(t.Nice(4), t.client_solvers.NewtonCg(), gamma=0.2), problem, rounds=10)
        >>> trace.ledger.totals()["vectors_up"]
        40
    """

    sampler: Sampler
    solver: LocalSolver
    gamma: Positive
    _: KW_ONLY
    alpha: Positive | None = None
    rule: Literal["grads", "stops"] = static(default="grads")
    minimum: float | Float[np.ndarray, " n"] = 0.0

    def round(self, ask, x):
        replies = ask(self.sampler, self.solve, x)
        ask.observe(replies)
        step, measure = replies.mean()
        return add(x, step, measure / positive(jnp.square(norm(step))) if self.alpha is None else self.alpha)

    @on_client
    def solve(self, client, x):
        """x_i - x, and what the rule takes the mean of."""
        solved = self.solver.minimise(client, Tilt(None, 1 / self.gamma, x), x)
        step, queries = add(solved.point, x, -1.0), solved.queries
        square = jnp.square(norm(step))
        if self.alpha is not None:
            return Done((step, None), queries=queries)
        if self.rule == "grads":
            return Done((step, square), queries=queries)
        above = client.value(solved.point) - of_client(self.minimum, client.id)
        return Done((step, self.gamma * above + square / 2), queries=queries + 1)
