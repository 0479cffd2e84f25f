"""SVRP: proximal points of random clients, corrected by gradients at an anchor."""

from dataclasses import field, replace
from typing import NamedTuple, cast

from jaxtyping import PyTree

from turnout.client_solvers import LocalSolver, Tilt
from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.client import Done
from turnout.core.records import Fraction, Positive, record
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.estimators import Svrg
from turnout.estimators.base import coin
from turnout.estimators.svrg import Anchor
from turnout.samplers import Sampler


class SvrpState(NamedTuple):
    """The parameters x, and the anchor w with grad f(w)."""

    x: PyTree
    anchor: Anchor


@record
class Svrp(Algorithm):
    """SVRP, the stochastic variance-reduced proximal point method (Khaled and Jin, 2022).

    x <- mean_{i in S} prox_{gamma f_i}(x - gamma (grad f(w) - grad f_i(w))); then w <- x with probability p, by a full pass.

    The paper draws one client, and here a cohort S takes its place, with the mean over the clients that answered. Two vectors go
    down, x - gamma grad f(w) and w, and one comes up; clients keep nothing.

    For uniform cohorts, equal lambda_i, mu-strongly convex f_i, gamma = mu / (2 delta^2), with delta as in `SDane`, and exact
    proximal points, V = |x - x*|^2 + (gamma mu / p) |w - x*|^2 falls as E V_t <= max(1 / (1 + gamma mu), 1 - p / 2)^t V_0.

    Proof: x* is the proximal point of x* + gamma grad f_i(x*), and prox_{gamma f_i} is 1 / (1 + gamma mu)-Lipschitz. Hence
    (1 + gamma mu)^2 E|x_t - x*|^2 <= |x_{t-1} - x*|^2 + gamma^2 delta^2 |w_{t-1} - x*|^2.

    Args:
        sampler: Draws the cohort S of each round.
        solver: Finds the proximal points at the clients.
        gamma: Step size of the proximal points; theory wants mu / (2 delta^2).
        probability: p, in (0, 1]; None means m / n, for cohorts of m out of n clients.
        anchors: Makes the full passes. Set by `bind`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Svrp(t.Nice(2), t.client_solvers.NewtonCg(), gamma=0.2), problem, rounds=10)
        >>> trace.ledger.totals()["draws_random"]
        10
    """

    sampler: Sampler
    solver: LocalSolver
    gamma: Positive
    probability: Fraction | None = field(default=None, kw_only=True)
    anchors: Svrg = field(default=Svrg(), repr=False, kw_only=True)

    cohorts_per_round = None

    def bind(self, problem):
        anchors = cast(Svrg, Svrg(self.probability).bind(self.sampler, problem))
        return replace(self, probability=anchors.probability, anchors=anchors)

    def start(self, ask, x):
        return SvrpState(x, self.anchors.anchored(ask, x, Anchor(x, zeros(x))))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        return self.iterate(ask, server, self.centre(server))

    def centre(self, server: SvrpState) -> PyTree:
        """Return x - gamma grad f(w)."""
        return add(server.x, server.anchor.gradient, -self.gamma)

    def weight(self):
        """Return the weight of the clients' proximal term."""
        return 1 / self.gamma

    def iterate(self, ask: Ask, server: SvrpState, centre: PyTree) -> SvrpState:
        """Return x and the anchor after the clients' proximal terms had this `centre`.

        Args:
            ask: Access to the clients.
            server: x and the anchor before.
            centre: Centre of the proximal terms.
        """
        replies = ask(self.sampler, self.solve, (centre, server.anchor.point))
        ask.observe(replies)
        x = if_any(replies, add(centre, replies.mean()), server.x)
        moves = coin(ask, self.probability)
        return SvrpState(x, ask.cond(moves, lambda w: self.anchors.anchored(ask, x, w), lambda w: w, server.anchor))

    @on_client
    def solve(self, client, message):
        """argmin_y f_i(y) - <y, grad f_i(w)> + (weight / 2) |y - centre|^2, less the centre."""
        centre, w = message
        solved = self.solver.minimise(client, Tilt(client.grad(w), self.weight(), centre), centre)
        return Done(add(solved.point, centre, -1.0), queries=solved.queries + 1)
