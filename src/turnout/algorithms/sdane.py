"""S-DANE: proximal steps of a cohort around a centre that moves by gradients."""

from dataclasses import replace
from typing import NamedTuple

import jax
from jaxtyping import PyTree

from turnout.client_solvers import LocalSolver, Tilt
from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.client import Done
from turnout.core.records import NonNegative, Positive, record
from turnout.core.replies import Replies, if_any
from turnout.core.tree import add
from turnout.samplers import Sampler


class SDaneState(NamedTuple):
    """The parameters x and the centre v."""

    x: PyTree
    v: PyTree


@record
class SDane(Algorithm):
    """S-DANE, stabilized DANE (Jiang, Rodomanov and Stich, 2024, Algorithm 1).

    x_i = argmin_y f_i(y) + <g - grad f_i(v), y> + (lam / 2) |y - v|^2, g = mean_{i in S} grad f_i(v), for i in S;
    x <- mean_{i in S} x_i, v <- (lam v + mu x - mean_{i in S} grad f_i(x_i)) / (lam + mu), from v = x.

    The gradients g are one exchange, the x_i and grad f_i(x_i) a second one with the same cohort. The means are over the clients
    that answered, weighted by lambda_i; the paper draws uniform cohorts.

    Let all clients take part, the f_i be mu-strongly convex, sum_i lambda_i |grad h_i(x) - grad h_i(y)|^2 <= delta^2 |x - y|^2
    for h_i = f - f_i, the x_i be exact and lam >= 2 delta. Then

        f(x_t) - f(x*) + (lam + mu) / 2 |v_t - x*|^2 <= lam / 2 |v_{t-1} - x*|^2.

    Proof: v_t minimises mean (f_i(x_i) + <grad f_i(x_i), y - x_i> + (mu / 2) |y - x_i|^2) + (lam / 2) |y - v_{t-1}|^2, a
    (lam + mu)-strongly convex function of y, of value at most f(x*) + (lam / 2) |x* - v_{t-1}|^2 at x*. With M the mean of
    |x_i - v_{t-1}|^2, its minimum is at least f(x_t) + lam M / 2 - delta |x_t - v_{t-1}| sqrt(M), and |x_t - v_{t-1}|^2 <= M.

    Args:
        sampler: Draws the cohort S of each round.
        solver: Finds x_i at the clients.
        lam: Weight of the proximal term; theory wants 2 delta.
        mu: Strong convexity of the f_i, >= 0.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.SDane(t.Nice(4), t.client_solvers.NewtonCg(), lam=10.0, mu=1.0), problem, rounds=10)
        >>> trace.ledger.totals()["vectors_down"], trace.ledger.totals()["vectors_up"]
        (120, 120)
    """

    sampler: Sampler
    solver: LocalSolver
    lam: Positive
    mu: NonNegative = 0.0

    cohorts_per_round = None

    def start(self, ask, x):
        return SDaneState(x, x)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        replies, x, slope = self.proximal_steps(ask, server.v)
        return if_any(replies, SDaneState(x, self.centre(server.v, self.lam, x, slope, self.mu)), server)

    def proximal_steps(self, ask: Ask, y: PyTree) -> tuple[Replies, PyTree, PyTree]:
        """Return the replies of a new cohort, the mean of its x_i around the centre `y`, and the mean of grad f_i(x_i).

        Args:
            ask: Access to the clients.
            y: Centre of the proximal terms.
        """
        replies = ask(self.sampler, self.gradient, y)
        ask.observe(replies)
        again = replace(replies.cohort, active=replies.answered)
        replies = ask(again, self.move, (y, replies.mean()))
        step, slope = replies.mean()
        return replies, add(y, step), slope

    @staticmethod
    def centre(v: PyTree, weight, x: PyTree, slope: PyTree, mu) -> PyTree:
        """Return argmin_y <slope, y> + (mu / 2) |y - x|^2 + (weight / 2) |y - v|^2.

        Args:
            v: The centre before.
            weight: Its weight.
            x: Parameters.
            slope: A gradient.
            mu: Weight of `x`.
        """
        return jax.tree.map(lambda v, x, slope: (weight * v + mu * x - slope) / (weight + mu), v, x, slope)

    @on_client
    def gradient(self, client, y):
        """grad f_i(y)."""
        return Done(client.grad(y))

    @on_client
    def move(self, client, message):
        """x_i - y and grad f_i(x_i)."""
        y, g = message
        solved = self.solver.minimise(client, Tilt(add(client.grad(y), g, -1.0), self.lam, y), y)
        return Done((add(solved.point, y, -1.0), client.grad(solved.point)), queries=solved.queries + 2)
