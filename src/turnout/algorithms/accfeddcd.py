"""Accelerated federated dual coordinate descent."""

from dataclasses import field, replace
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from turnout.algorithms.mean_delivery import (
    Delivery,
    check_cohorts,
    dual_step,
    exchange_solutions,
    initial_state,
    strong_convexity,
)
from turnout.client_solvers import LocalSolver, Tilt
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.tree import where, zeros
from turnout.problems.base import Problem
from turnout.samplers import Full, Nice, Sampler
from turnout.theory.feddcd_bounds import accfeddcd_bound


class ClientDuals(NamedTuple):
    """A client's y_i and z_i after the round of its last cohort, before the correction for it, and its solution w_i of then.

    `met` numbers that cohort from 0: round t has the cohorts 2 t - 2, after which y_i lacks its correction, and 2 t - 1, after
    which z_i does. It is -1 for a client that was never drawn, which lacks nothing.
    """

    y: PyTree
    z: PyTree
    w: PyTree
    met: Int[Array, ""]


@record
class AccFedDcd(Algorithm):
    """AccFedDCD, accelerated federated dual coordinate descent (FedDCD, Algorithm 2).

    v_i = (1 - a) y_i + a z_i and u_i = (a^2 z_i + b v_i) / (a^2 + b) for all i, w_i = argmin_w f_i(w) - <w, v_i> for S and S';
    y_i <- v_i, minus lr alpha (w_i - mean_S) for i in S; z_i <- u_i, minus lr alpha a r / (a^2 + b) (w_i - mean_S') for i in S'.

    a = s / (1 / r + s) and b = a r^2 s^2, s^2 = alpha / beta. S and S' are drawn apart in each round, which is thus two exchanges
    ("eager": four) where `FedDcd` makes one. Means are as in `FedDcd`; the parameters handed out are the mean over the last
    cohort in which a client answered. A client makes up for the rounds that it missed when it is next drawn.

    For equal lambda_i and lr = 1, E|w_i - w*|^2 <= rho^t |y*|^2 / (n alpha^2) for solutions after t rounds, in the mean over all
    i, with rho = 1 - a (Theorem 6.1); y*_i = grad f_i(w*).

    Args:
        sampler: Draws the cohorts S and S': a uniform sampler of at least two clients, or all.
        solver: Finds w_i at the clients.
        lr: Factor of the dual steps; theory wants 1.
        convexity: alpha; None means the smallest mu_i of the problem.
        smoothness: beta; None means the largest L_i of the problem.
        fraction: r, in (0, 1]; None means (tau - 1) / (n - 1) for cohorts of tau.
        delivery: As in `FedDcd`.
        warm_start: As in `FedDcd`.
        clients: Number of clients. Set by `bind`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.AccFedDcd(t.Nice(4), t.client_solvers.NewtonCg()), problem, rounds=10)
        >>> trace.ledger.totals()["exchanges"]
        20
    """

    sampler: Sampler
    solver: LocalSolver
    lr: Positive = 1.0
    convexity: Positive | list[Positive] | None = field(default=None, kw_only=True)
    smoothness: Positive | None = field(default=None, kw_only=True)
    fraction: Fraction | None = field(default=None, kw_only=True)
    delivery: Delivery = static(default="lazy", kw_only=True)
    warm_start: Literal["client", "server"] = static(default="client", kw_only=True)
    clients: Count | None = static(default=None, repr=False, kw_only=True)

    is_dual = True
    cohorts_per_round = 2

    def bind(self, problem):
        check_cohorts("AccFedDcd", self.sampler, problem.population)
        if not isinstance(self.sampler, (Nice, Full)):
            raise UserError("AccFedDcd needs uniform cohorts of one size: take the sampler nice or full")
        if np.ndim(0 if self.convexity is None else self.convexity):
            raise UserError(
                "AccFedDcd.convexity must be one number, since only with equal steps is the mean of the cohorts' projections a "
                "multiple of that on all clients, as acceleration needs: give the least of the list"
            )
        n = problem.clients
        size = self.sampler.size if isinstance(self.sampler, Nice) else n
        return replace(
            self,
            convexity=float(strong_convexity("AccFedDcd", self.convexity, problem).min()),
            smoothness=self.smoothness or largest_smoothness(problem),
            fraction=self.fraction or (size - 1) / max(n - 1, 1),
            clients=n,
        )

    def bounds(self, problem, constants):
        return accfeddcd_bound(problem, constants, self.sampler, self.lr, self.convexity, self.smoothness, self.fraction)

    def client_state(self, x):
        return ClientDuals(zeros(x), zeros(x), x, jnp.full((), -1, "int32"))

    def start(self, ask, x):
        return initial_state(x, self.clients, self.delivery)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        def one_cohort(carry):
            server, number = carry
            start = server.x if self.warm_start == "server" else None
            cohort = ask.draw(self.sampler)
            server, _ = exchange_solutions(ask, cohort, server, self.solve, self.correct, self.convexity, number, start)
            return server, number + 1

        return ask.loop(2, one_cohort, (server, 2 * ask.round - 2))[0]

    def duals(self, server, clients, round):
        a, c, share = self._weights()
        due = jnp.ones(clients.met.shape, bool) if server.due is None else server.due

        def one(state, mean, due):
            new = where(due, self._stepped(state, mean, share), state)
            missed = jnp.where(state.met < 0, 0, round - state.met // 2 - 1)
            return after_rounds(new.y, new.z, missed, a, c * (1 - a))[0]

        return jax.vmap(one)(clients, server.owed, due)

    @on_client
    def solve(self, client, message):
        """w_i at this round's v_i, which a client of the round's first cohort has already in the second."""
        mean, number, start = message
        state = client.state if mean is None else self._corrected(client, mean)
        missed = number // 2 - state.met // 2 - 1
        zero = jnp.zeros((), "int32")
        same = Done(state.w, state._replace(met=number), zero, zero)
        new = self._solved(client, state, jnp.maximum(missed, 0), number, state.w if start is None else start)
        # Over a cohort a branch would compute both as well, on a copy of all clients' rows for each place.
        return where(missed < 0, same, new)

    @on_client
    def correct(self, client, mean):
        """Nothing; the client makes the step for `mean`."""
        return Done(None, self._corrected(client, mean), queries=0)

    def _solved(
        self, client, state: ClientDuals, missed: Int[Array, ""], number: Int[Array | np.ndarray, ""], start: PyTree
    ) -> Done:
        """w_i at v_i, after `missed` rounds without this client; y_i = v_i and z_i = u_i are its new state."""
        a, c, _ = self._weights()
        y, z = after_rounds(state.y, state.z, missed, a, c * (1 - a))
        v = interpolate(y, z, a)
        solved = self.solver.minimise(client, Tilt(linear=v), start, convexity=self.convexity)
        new = ClientDuals(v, interpolate(z, v, c), solved.point, number)
        return Done(solved.point, new, jnp.asarray(solved.queries, "int32"), jnp.asarray(solved.missed, "int32"))

    def _corrected(self, client, mean) -> ClientDuals:
        """Return the client's state after the step of its last cohort, whose mean solution is `mean`."""
        return self._stepped(client.state, mean, self._weights()[2])

    def _stepped(self, state: ClientDuals, mean: PyTree, share) -> ClientDuals:
        """Return a client's `state` after that step, `share` being a r / (a^2 + b)."""
        rate, second = self.lr * jnp.asarray(self.convexity), state.met % 2 == 1
        y = dual_step(state.y, jnp.where(second, 0, rate), state.w, mean)
        z = dual_step(state.z, jnp.where(second, share * rate, 0), state.w, mean)
        return state._replace(y=y, z=z)

    def _weights(self) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
        """a, c = b / (a^2 + b), which is the share of v_i in u_i, and a r / (a^2 + b)."""
        alpha, beta, r = (jnp.asarray(number) for number in (self.convexity, self.smoothness, self.fraction))
        s = jnp.sqrt(alpha / beta)
        a = s / (1 / r + s)
        b = a * r**2 * s**2
        return a, b / (a**2 + b), a * r / (a**2 + b)


def after_rounds(y: PyTree, z: PyTree, rounds: Int[Array, ""], a, g) -> tuple[PyTree, PyTree]:
    """(y, z) after `rounds` rounds of (y, z) <- ((1 - a) y + a z, g y + (1 - g) z).

    g y + a z is invariant, and z - y shrinks by q = 1 - a - g each round, so that y gains a (1 - q^rounds) / (a + g) of it.

    Args:
        y: Parameters or vectors y.
        z: Parameters or vectors z.
        rounds: Number of rounds.
        a: a.
        g: g.
    """
    moved = -jnp.expm1(rounds.astype(a.dtype) * jnp.log(1 - a - g)) / (a + g)
    return interpolate(y, z, a * moved), interpolate(z, y, g * moved)


def interpolate(y: PyTree, z: PyTree, share) -> PyTree:
    """(1 - share) y + share z.

    Args:
        y: Parameters or vectors y.
        z: Parameters or vectors z.
        share: Weight of z.
    """
    return jax.tree.map(lambda y, z: y + share * (z - y), y, z)


def largest_smoothness(problem: Problem) -> float:
    """Return max_i L_i, or raise `UserError` where the problem does not know it."""
    constants = problem.constants()
    if constants is None:
        raise UserError(f"AccFedDcd needs smoothness: {type(problem).__name__} does not know it")
    return float(constants.smoothness.max())
