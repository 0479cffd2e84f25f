"""Federated averaging of the clients' own proximal points."""

import jax

from turnout.client_solvers import Bfgs, LocalSolver, Tilt
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import Count, Positive, record
from turnout.core.tree import add
from turnout.samplers import Sampler
from turnout.theory.bounds import Bound, averaged_prox
from turnout.theory.cohort_mean_weights import cohort_mean_weights


@record
class FedProxSppm(Algorithm):
    """x <- mean of prox_{gamma f_i}(x) over the cohort, `inner` times with one cohort.

    FedProx-SPPM-AS, Algorithm 2 of Cohort Squeeze. Each client finds its prox by its own `solver`. The mean weighs clients by
    lambda_i, the paper's 1 / |S| where all are equal.
    """

    sampler: Sampler
    gamma: Positive
    inner: Count = 1
    solver: LocalSolver = Bfgs(tolerance=1e-8)

    cohorts_per_round = None

    def bounds(self, problem, constants):
        if self.inner != 1:
            raise UserError("Theorem 2 is about one exchange a round: take inner = 1")
        q = cohort_mean_weights(self.sampler, problem.population)
        a, b = averaged_prox(self.gamma, constants.convexity, q, constants.gradient_norms2)
        return Bound(2, float(a), float(b / (1 - a)), constants.distance2)

    def round(self, ask, x):
        cohort = ask.draw(self.sampler, self.prox, x)

        def step(y):
            replies = ask(cohort, self.prox, y)
            ask.observe(replies)
            return add(y, replies.mean())

        return ask.loop(self.inner, step, x)

    @on_client
    def prox(self, client, x):
        """prox_{gamma f_i}(x) - x."""
        return proximal_change(self.solver, client, x, self.gamma)


@record
class FedAvgSppm(Algorithm):
    """y <- mean of prox_{alpha f~_i}(y) over the cohort, f~_i = f_i + |. - x|^2 / (2 gamma), `inner` times from y = x.

    FedAvg-SPPM-AS, Algorithm 3 of Cohort Squeeze with the quadratics of its text, not of its appendix:
    prox_{alpha f~_i}(y) = prox_{eta f_i}((alpha x + gamma y) / (alpha + gamma)), eta = alpha gamma / (alpha + gamma). The server
    sends that centre, so that one vector goes down in each exchange. Clients solve and are weighed as in `FedProxSppm`.
    """

    sampler: Sampler
    gamma: Positive
    alpha: Positive
    inner: Count = 1
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
        return proximal_change(self.solver, client, centre, self.alpha * self.gamma / (self.alpha + self.gamma))


def proximal_change(solver: LocalSolver, client, centre, gamma) -> Done:
    """Reply with prox_{gamma f_i}(centre) - centre."""
    solved = solver.minimise(client, Tilt(weight=1 / gamma, centre=centre), centre)
    return Done(add(solved.point, centre, -1.0), queries=solved.queries)
