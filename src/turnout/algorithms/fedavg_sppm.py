"""FedAvg-SPPM-AS: means of the proximal points of the clients' parts of the cohort's proximal problem."""

from dataclasses import KW_ONLY

import jax

from turnout.client_solvers import Bfgs, LocalSolver, Tilt
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record
from turnout.core.tree import add
from turnout.samplers import Sampler


@record
class FedAvgSppm(Algorithm):
    """FedAvg-SPPM-AS: Algorithm 3 of Cohort Squeeze, with the quadratics of its text, not of its appendix.

    y <- mean_{i in S} prox_{alpha g_i}(y), g_i = f_i + |. - x|^2 / (2 gamma), `inner` times from y = x; then x <- y.

    prox_{alpha g_i}(y) = prox_{eta f_i}(c) with the centre c = (alpha x + gamma y) / (alpha + gamma) and
    eta = alpha gamma / (alpha + gamma). The server sends c, so that one vector goes down in each exchange. The mean weighs
    clients by lambda_i, as in `FedProxSppm`.

    Args:
        sampler: Who takes part in each round.
        gamma: Step size of the cohort's proximal problem, > 0.
        alpha: Step size of the clients' proximal points, > 0.
        inner: Exchanges with each cohort.
        solver: How a client finds its proximal point.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedAvgSppm(t.Nice(4), gamma=0.5, alpha=0.2, inner=2), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        10
    """

    sampler: Sampler
    gamma: Positive
    alpha: Positive
    inner: Count = 1
    _: KW_ONLY
    solver: LocalSolver = Bfgs(tolerance=1e-8)

    cohorts_per_round = None

    def round(self, ask, x):
        cohort = ask.draw(self.sampler, self.prox, x)
        share = self.alpha / (self.alpha + self.gamma)

        def step(y):
            centre = jax.tree.map(lambda x, y: share * x + (1 - share) * y, x, y)
            replies = ask(cohort, self.prox, centre)
            ask.observe(replies)
            return add(centre, replies.mean())

        return ask.loop(self.inner, step, x)

    @on_client
    def prox(self, client, centre):
        """prox_{eta f_i}(centre) - centre."""
        eta = self.alpha * self.gamma / (self.alpha + self.gamma)
        solved = self.solver.minimise(client, Tilt(weight=1 / eta, centre=centre), centre)
        return Done(add(solved.point, centre, -1.0), queries=solved.queries)
