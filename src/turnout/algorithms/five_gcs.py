"""5GCS: dual variables of clients that are drawn at random."""

from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from turnout.client_solvers import LocalSolver, Solution, Tilt
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import NonNegative, Positive, record
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler


class FiveGcsState(NamedTuple):
    """The parameters x, and v = sum_i lambda_i h_i."""

    x: PyTree
    v: PyTree


@record
class FiveGcs(Algorithm):
    """5GCS: a primal-dual method with client sampling (Grudzien, Malinovsky and Richtarik, 2022, Algorithm 1).

    z = (x - gamma v) / (1 + gamma mu); for i in S, with phi_i(y) = f_i(y) - (mu / 2) |y|^2,
    y_i ~ argmin_y phi_i(y) - <y, h_i> + |y - z|^2 / (2 gamma) by `solver` from z, and h_i <- grad phi_i(y_i), from h_i = 0;
    x <- z - gamma sum_{i in S} (lambda_i / p_i) (change of h_i), v = sum_i lambda_i h_i.

    In the paper the f_i weigh 1 / n each, so that its dual variables are h_i / n; its tau is 1 / (gamma n) here. One vector goes
    down and one comes up. A rough y_i changes the speed, not the fixed point x = z = x*, h_i = grad phi_i(x*).

    For exact y_i, equal lambda_i, uniform cohorts of m out of n clients, and f_i mu-strongly convex and L-smooth,
    Psi = |x - x*|^2 / gamma + (n / m) (gamma + 2 / (L - mu)) mean |h_i - grad phi_i(x*)|^2 falls as

        E Psi_t <= max(1 / (1 + 2 gamma mu), 1 - (m / n) 2 / (2 + gamma (L - mu)))^t Psi_0.

    Proof: let D_i be the change of h_i were i drawn, H and H+ the means of |h_i - grad phi_i(x*)|^2 now and were all drawn, and
    e the mean of h_i + D_i - grad phi_i(x*). As phi_i is (L - mu)-smooth and y_i = z - gamma D_i,
    (gamma + 2 / (L - mu)) H+ <= gamma H - gamma mean |D_i|^2 + 2 <e, z - x*>. For x, E|x_t - x*|^2 / gamma <=
    |x - x*|^2 / gamma - 2 mu |z - x*|^2 - |x - z|^2 / gamma - 2 <e, z - x*> + gamma mean |D_i|^2. In the sum the products and
    |D_i|^2 cancel, and 2 mu |z - x*|^2 + |x - z|^2 / gamma >= 2 mu / (1 + 2 gamma mu) |x - x*|^2.

    Args:
        sampler: Draws the cohort S of each round.
        solver: Finds y_i at the clients.
        gamma: Step size, < 1 / mu; gamma^2 = m / (n mu L) is about the best.
        mu: Strong convexity of the f_i; None means the smallest mu_i of the problem.

    Raises:
        UserError: If `mu` is neither given nor known, or gamma mu is 1 or more.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FiveGcs(t.Nice(2), t.client_solvers.NewtonCg(), gamma=0.2), problem, rounds=10)
        >>> trace.ledger.totals()["vectors_up"]
        20
    """

    sampler: Sampler
    solver: LocalSolver
    gamma: Positive
    mu: NonNegative | None = field(default=None, kw_only=True)

    def bind(self, problem):
        mu = self.mu
        if mu is None:
            constants = problem.constants()
            if constants is None:
                name, unknown = type(self).__name__, type(problem).__name__
                raise UserError(f"{name} needs mu: {unknown} does not know how convex its clients are")
            mu = max(0.0, float(min(constants.convexity)))
        if self.gamma * mu >= 1:
            name = type(self).__name__
            raise UserError(f"{name} needs gamma < 1 / mu = {1 / mu:g}, but gamma is {self.gamma:g}: make it smaller")
        return replace(self, mu=mu)

    def client_state(self, x):
        return zeros(x)

    def start(self, ask, x):
        return FiveGcsState(x, zeros(x))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, v = server
        z = jax.tree.map(lambda x, v: (x - self.gamma * v) / (1 + self.gamma * self._mu), x, v)
        replies = ask(self.sampler, self.solve, z)
        ask.observe(replies)
        return if_any(replies, FiveGcsState(add(z, replies.average(), -self.gamma), add(v, replies.total())), server)

    @property
    def _mu(self) -> Any:
        """mu, a number once `bind` has been called."""
        return self.mu

    @on_client
    def solve(self, client, z):
        """The change of h_i."""
        solved = self._solved(client, z, self.gamma)
        h = add(client.grad(solved.point), solved.point, -self._mu)
        return Done(add(h, client.state, -1.0), h, solved.queries + 1)

    def _solved(self, client, z, step) -> Solution:
        """Return y_i ~ argmin_y phi_i(y) - <y, h_i> + |y - z|^2 / (2 step)."""
        weight = 1 / step - self._mu
        centre = jax.tree.map(lambda z: z / (step * weight), z)
        return self.solver.minimise(client, Tilt(client.state, weight, centre), z)
