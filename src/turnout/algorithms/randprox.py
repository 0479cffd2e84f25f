"""RandProx: dual variables of clients that are drawn at random and compress their replies."""

from dataclasses import field, replace
from typing import Any

import jax

from turnout.algorithms.five_gcs import FiveGcs, FiveGcsState
from turnout.codecs.base import Codec
from turnout.codecs.trees import ask_compressed, compress, variance_of
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import Positive, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add
from turnout.theory.compression import randprox_step


@record
class RandProx(FiveGcs):
    """RandProx (Condat and Richtarik, 2023, Algorithm 2) whose random dual steps are those of a cohort, and compressed.

    z = (1 - gamma mu) x - gamma v; for i in S, with phi_i(y) = f_i(y) - (mu / 2) |y|^2,
    y_i ~ argmin_y phi_i(y) - <y, h_i> + |y - z|^2 / (2 beta) by `solver` from z, D_i = (z - y_i) / beta;
    x <- z - gamma sum_{i in S} (lambda_i / p_i) C(D_i), and h_i <- h_i + C(D_i) / (1 + omega), from h_i = 0;
    v = sum_i lambda_i h_i.

    C is unbiased with variance omega, and its random numbers are the clients' own. The paper's f is (mu / 2) |x|^2, and its h the
    sum of the lambda_i phi_i, each of a copy of x. Its dual vectors u_i are lambda_i h_i, its tau is lambda_i / beta, and its R
    takes C / p_i of those of the cohort and 0 of the others. `Scaffnew` and `PointSaga` are RandProx too, for other f, h and R. A
    rough y_i changes the speed, not the fixed point x = z = x*, h_i = grad phi_i(x*).

    For exact y_i, cohorts whose lambda_i / p_i add up to 1, at most w each, f_i mu-strongly convex and L-smooth, and
    beta >= gamma (1 + omega w), with p = min_i p_i,
    Psi = |x - x*|^2 / gamma + (1 + omega) (beta + 2 / (L - mu)) sum_i (lambda_i / p_i) |h_i - grad phi_i(x*)|^2 falls as

        E Psi_t <= max((1 - gamma mu)^2, 1 - p / (1 + omega) 2 / (2 + beta (L - mu)))^t Psi_0.

    Proof: let H and H+ be sum_i lambda_i |h_i - grad phi_i(x*)|^2 now and were all h_i moved by D_i, and e the mean of
    h_i + D_i - grad phi_i(x*). As phi_i is (L - mu)-smooth and y_i = z - beta D_i,
    (beta + 2 / (L - mu)) H+ <= beta H - beta sum_i lambda_i |D_i|^2 + 2 <e, z - x*>. Since
    E|h + C(D) / (1 + omega) - h*|^2 <= (1 - q) |h - h*|^2 + q |h + D - h*|^2, q = 1 / (1 + omega), what Psi has of the h_i falls
    by its factor, up to the last two terms. For x, E|x_t - x*|^2 / gamma <= (1 - gamma mu)^2 |x - x*|^2 / gamma - 2 <e, z - x*>
    + gamma E|sum_S (lambda_i / p_i) C(D_i)|^2, and that last square is at most (1 + omega w) sum_i lambda_i |D_i|^2.

    Args:
        sampler: Draws the cohort S of each round.
        solver: Finds y_i at the clients.
        gamma: Step size, < 1 / mu; gamma^2 = p / ((1 + omega) (1 + omega w) mu L) is about the best.
        codec: C.
        mu: Strong convexity of the f_i; None means the smallest mu_i of the problem.
        beta: Step size of the proximal points, < 1 / mu; None means the least of the theorem, by
            `theory.compression.randprox_step`.

    Raises:
        UserError: Where `mu` is neither given nor known, beta mu is 1 or more, the codec is biased, or beta is left out and the
            p_i are not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> solver, codec = t.client_solvers.NewtonCg(), t.codecs.RandK(count=2)
        >>> trace = t.run(t.RandProx(t.Nice(2), solver, gamma=0.1, codec=codec), problem, rounds=10)
        >>> trace.ledger.totals()["bytes_up"]
        320
    """

    codec: Codec = static()
    beta: Positive | None = field(default=None, kw_only=True)

    def bind(self, problem):
        bound = super().bind(problem)
        mu = bound._mu
        beta = randprox_step(problem, self.sampler, self.codec, self.gamma) if self.beta is None else self.beta
        if beta * mu >= 1:
            which = "gamma" if self.beta is None else "it"
            raise UserError(f"RandProx needs beta < 1 / mu = {1 / mu:g}, but beta is {beta:g}: make {which} smaller")
        return replace(bound, beta=beta)

    def round(self, ask, server):
        x, v = server
        z = jax.tree.map(lambda x, v: (1 - self.gamma * self._mu) * x - self.gamma * v, x, v)
        replies = ask_compressed(ask, self.sampler, self.solve, z, self.codec, z)
        ask.observe(replies)
        moved = FiveGcsState(add(z, replies.average(), -self.gamma), add(v, replies.total(), self._share(x)))
        return if_any(replies, moved, server)

    @on_client
    def solve(self, client, message):
        """The payload of C(D_i)."""
        z, key = message
        solved = self._solved(client, z, self._beta)
        step = jax.tree.map(lambda z, y: (z - y) / self._beta, z, solved.point)
        payload, step = compress(self.codec, step, client, key)
        return Done(payload, add(client.state, step, self._share(z)), solved.queries)

    @property
    def _beta(self) -> Any:
        """beta, a number once `bind` has been called."""
        return self.beta

    def _share(self, x) -> float:
        """Return 1 / (1 + omega)."""
        return 1 / (1 + variance_of(self.codec, x))
