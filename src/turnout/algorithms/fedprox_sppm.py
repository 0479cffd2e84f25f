"""FedProx-SPPM-AS: means of the proximal points of the clients."""

from dataclasses import KW_ONLY

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
    """FedProx-SPPM-AS: Algorithm 2 of Cohort Squeeze.

    x <- mean_{i in S} prox_{gamma f_i}(x), `inner` times with the same cohort S.

    The mean weighs clients by lambda_i, which is the paper's 1 / |S| where all are equal.

    Args:
        sampler: Who takes part in each round.
        gamma: Step size of the proximal points, > 0.
        inner: Exchanges with each cohort.
        solver: How a client finds its proximal point.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedProxSppm(t.Nice(4), gamma=0.5, inner=2), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        10
    """

    sampler: Sampler
    gamma: Positive
    inner: Count = 1
    _: KW_ONLY
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

        def step(x):
            replies = ask(cohort, self.prox, x)
            ask.observe(replies)
            return add(x, replies.mean())

        return ask.loop(self.inner, step, x)

    @on_client
    def prox(self, client, x):
        """prox_{gamma f_i}(x) - x."""
        solved = self.solver.minimise(client, Tilt(weight=1 / self.gamma, centre=x), x)
        return Done(add(solved.point, x, -1.0), queries=solved.queries)
