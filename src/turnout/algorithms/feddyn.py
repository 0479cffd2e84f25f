"""FedDyn: federated learning with dynamic regularisation."""

from typing import NamedTuple

from jaxtyping import PyTree

from turnout.client_solvers import LocalSolver, Tilt
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Positive, record
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler


class FedDynState(NamedTuple):
    """The `mean` of the last x_i, and `variate` = h = sum_i lambda_i g_i."""

    mean: PyTree
    variate: PyTree


@record
class FedDyn(Algorithm):
    """FedDyn: dynamic regularisation (Acar et al., 2021, Algorithm 1; cost-aware client selection, appendix A).

    x_i = argmin_w f_i(w) - <g_i, w> + (lambda / 2) |w - x|^2 and g_i <- g_i - lambda (x_i - x) for i in S, g_i = 0 at first;
    h <- h - lambda sum_{i in S} lambda_i (x_i - x) and x <- mean_{i in S} x_i - h / lambda, with lambda = 1 / `gamma`.

    The formula for h in the appendix lacks brackets. h is always sum_i lambda_i g_i, and g_i = grad f_i(x_i) for exact x_i.
    That g_i = 0 at first is what the paper's first pass for grad f_i(x_i) = 0 leads to. `PointSaga` with cohorts makes the same
    steps, but hands out the mean of the x_i in the place of x.

    Args:
        sampler: Who takes part in each round.
        solver: How a client finds x_i.
        gamma: 1 / lambda, the step size, > 0.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedDyn(t.Nice(4), t.client_solvers.Bfgs(), gamma=0.5), problem, rounds=5)
        >>> trace.ledger.totals()["vectors_up"]
        20
    """

    sampler: Sampler
    solver: LocalSolver
    gamma: Positive

    def start(self, ask, x):
        return FedDynState(x, zeros(x))

    def client_state(self, x):
        return zeros(x)

    def output(self, server):
        return add(server.mean, server.variate, -self.gamma)

    def round(self, ask, server):
        x = self.output(server)
        replies = ask(self.sampler, self.solve, x)
        ask.observe(replies)
        mean = if_any(replies, add(x, replies.mean()), server.mean)
        return FedDynState(mean, add(server.variate, replies.total(), -1 / self.gamma))

    @on_client
    def solve(self, client, x):
        """x_i - x."""
        solved = self.solver.minimise(client, Tilt(client.state, 1 / self.gamma, x), x)
        change = add(solved.point, x, -1.0)
        return Done(change, add(client.state, change, -1 / self.gamma), solved.queries)
