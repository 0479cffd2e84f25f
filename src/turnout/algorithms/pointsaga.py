"""Point-SAGA: proximal points of clients that correct their own drift, one vector down and one up."""

from typing import Any, NamedTuple

from jaxtyping import PyTree

from turnout.client_solvers import LocalSolver, Tilt
from turnout.codecs.base import Codec
from turnout.codecs.trees import ask_compressed, compress
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Positive, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler


class PointSagaState(NamedTuple):
    """The parameters x, and `variate` = sum_i lambda_i y_i."""

    x: PyTree
    variate: PyTree


@record
class PointSaga(Algorithm):
    """Point-SAGA with cohorts (Defazio, 2016, Algorithm 1).

    x <- mean_{i in S} w_i, w_i = argmin_w f_i(w) - <w, y_i> + |w - z|^2 / (2 gamma), z = x - gamma sum_i lambda_i y_i;
    y_i <- y_i - (w_i - z) / gamma for i in S, from y_i = 0.

    Cohorts S of any size take the place of one term, and clients keep the table of gradients: y_i = grad f_i(w_i) once w_i is
    exact. The mean is over the clients that answered. z goes down and w_i - z comes up, which tells the server the change of y_i
    too: its sum_i lambda_i y_i is exact however roughly `solver` finds w_i, starting from z. At the optimum y_i = grad f_i(x*)
    and w_i = z = x* is a fixed point for any sampler and any weights.

    It is `FedDcd` with a proximal term: argmin f_i - <., y_i> answers a change of y_i with one of up to 1 / mu times its length,
    so that FedDCD's step must be as small as mu. Here the step 1 / gamma is safe for any value.

    For exact w_i, equal lambda_i, uniform cohorts of tau out of n, and f_i mu-strongly convex and L-smooth,

        E|x_t - x*|^2 <= max(1 / (1 + A), 1 - (tau / n) B / (1 + B))^t (|x_0 - x*|^2 + gamma^2 c sum_i |grad f_i(x*)|^2 / n),

    A = 2 gamma mu L / (mu + L), B = 2 / (gamma (mu + L)), c = (n / tau) (1 + B) / (1 + A). With gamma^2 = tau / (n mu L) the
    factor is about 1 - 2 sqrt(tau mu / (n L)), but not less than 1 - tau / n; FedDCD's is 1 - (tau - 1) / (n - 1) mu / L. Clients
    that differ little allow a larger gamma.

    Proof: let p_i = (w_i - x*) / gamma and e_i = y_i - grad f_i(x*), of mean e over all i, and e'_i after i's step. Then
    p_i + e'_i = (x - x*) / gamma + e_i - e and 2 <p_i, e'_i> >= A |p_i|^2 + B |e'_i|^2, hence
    (1 + A) mean |p_i|^2 + (1 + B) mean |e'_i|^2 <= |x - x*|^2 / gamma^2 + mean |e_i|^2. So |x - x*|^2 / gamma^2 + c mean |e_i|^2
    shrinks by the factor: the new x has at most gamma^2 mean_S |p_i|^2, and a share tau / n of the e_i is replaced.

    With a `codec`, C(w_i - z) comes up and takes the place of w_i - z in x and in y_i. So the server's sum stays exact, and the
    fixed point is the same. Where an `Exchange` compresses replies, the server's sum changes by what was read and y_i does not.

    Args:
        sampler: Draws the cohort S of each round.
        solver: Finds w_i at the clients.
        gamma: Step size of the proximal points.
        codec: C, divided by 1 + omega if it is unbiased; None for whole replies. No rate is known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.PointSaga(t.Nice(2), t.client_solvers.NewtonCg(), gamma=0.2), problem, rounds=10)
        >>> trace.ledger.totals()["vectors_up"]
        20
    """

    sampler: Sampler
    solver: LocalSolver
    gamma: Positive
    codec: Codec | None = static(default=None)

    def start(self, ask, x):
        return PointSagaState(x, zeros(x))

    def client_state(self, x):
        return zeros(x)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        z = add(server.x, server.variate, -self.gamma)
        if self.codec is None:
            replies = ask(self.sampler, self.solve, z)
        else:
            replies = ask_compressed(ask, self.sampler, self.solve_roughly, z, self.codec, z, contract=True)
        ask.observe(replies)
        x = if_any(replies, add(z, replies.mean()), server.x)
        return PointSagaState(x, add(server.variate, replies.total(), -1 / self.gamma))

    @on_client
    def solve(self, client, z):
        """w_i - z."""
        step, queries = self._step(client, z)
        return Done(step, add(client.state, step, -1 / self.gamma), queries)

    @on_client
    def solve_roughly(self, client, message):
        """The payload of C(w_i - z)."""
        z, key = message
        step, queries = self._step(client, z)
        payload, step = compress(self.codec, step, client, key, contract=True)
        return Done(payload, add(client.state, step, -1 / self.gamma), queries)

    def _step(self, client, z) -> tuple[PyTree, Any]:
        """Return w_i - z and the queries that it took."""
        solved = self.solver.minimise(client, Tilt(client.state, 1 / self.gamma, z), z)
        return add(solved.point, z, -1.0), solved.queries
