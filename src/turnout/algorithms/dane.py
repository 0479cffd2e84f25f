"""DANE: clients minimise their own functions, tilted so that the slope at x is that of all."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jaxtyping import PyTree

from turnout.algorithms.mimemvr import ClientGradient
from turnout.client_solvers import LocalSolver, Tilt
from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.client import Done
from turnout.core.records import NonNegative, Positive, record
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler


@record
class Dane(Algorithm):
    """DANE (Shamir, Srebro and Zhang, 2014, figure 1), for any sampler.

    g = sum_{i in S} (lambda_i / p_i) grad f_i(x), then x <- mean_{i in S} y_i with

        y_i = argmin_y f_i(y) - <grad f_i(x) - lr g, y> + (lam / 2) |y - x|^2.

    A round is two exchanges of one vector each way, the second one with the clients that answered the first. The paper has full
    participation and equal weights; then x* is the fixed point. `SDane` converges where clients differ more, and `LazyDane` with
    small cohorts.

    On quadratics with Hessians A_i, all clients and exact y_i (Lemma 2 of the paper, with weights),

        x_{t+1} - x* = (I - lr sum_i lambda_i (A_i + lam I)^-1 A) (x_t - x*),   A = sum_i lambda_i A_i,

    so that the fewer rounds, the more alike the A_i: with equal ones and lam = 0, lr = 1 one round is enough.

    Args:
        sampler: Draws the cohort S of each round.
        solver: Finds y_i at the clients.
        lam: Weight of the proximal term, the paper's mu, >= 0.
        lr: Factor of g, the paper's eta, > 0.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Dane(t.Full(), t.client_solvers.NewtonCg(), lam=1.0), problem, rounds=10)
        >>> trace.ledger.totals()["exchanges"], trace.ledger.totals()["vectors_up"]
        (20, 160)
    """

    sampler: Sampler
    solver: LocalSolver
    lam: NonNegative = 0.0
    lr: Positive = 1.0

    cohorts_per_round = None

    def client_state(self, x):
        return ClientGradient(x, zeros(x))

    def round(self, ask, x):
        return self.iterate(ask, x, lambda g: g)

    def iterate(self, ask: Ask, x: PyTree, gradient: Callable[[PyTree], PyTree]) -> PyTree:
        """Return x after the two exchanges with a new cohort.

        Args:
            ask: Access to the clients.
            x: The parameters.
            gradient: Returns the gradient at x of what is minimised, given that of f.
        """
        replies = ask(self.sampler, self.look, x)
        ask.observe(replies)
        again = replace(replies.cohort, active=replies.answered)
        return if_any(replies, add(x, ask(again, self.move, gradient(replies.average())).mean()), x)

    def weight(self) -> Any:
        """Return the weight of the clients' proximal terms."""
        return self.lam

    @on_client
    def look(self, client, x):
        """grad f_i(x)."""
        gradient = client.grad(x)
        return Done(gradient, ClientGradient(x, gradient))

    @on_client
    def move(self, client, g):
        """y_i - x."""
        x, own = client.state
        solved = self.solver.minimise(client, Tilt(add(own, g, -self.lr), self.weight(), x), x)
        return Done(add(solved.point, x, -1.0), queries=solved.queries)
