"""Accelerated federated dual coordinate descent."""

from dataclasses import replace
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from turnout.algorithms.dual import DualMethod, check_cohorts, steps_from, strong_convexity
from turnout.client_solvers import LocalSolver, Tilt
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.problems.base import Problem
from turnout.samplers import Full, Nice, Sampler


class Momentum(NamedTuple):
    """A client's y_i and z_i after the round in which it was last met, up to a correction owed, and its solution w_i of then.

    `met` is the number of the set, from 0: round t has sets 2 t - 2, after which y_i is owed its correction, and 2 t - 1, after
    which z_i is. A client never met has nothing to correct.
    """

    y: PyTree
    z: PyTree
    w: PyTree
    met: Int[Array, ""]


@record
class AccFedDcd(DualMethod):
    """v_i = (1 - a) y_i + a z_i and u_i = (a^2 z_i + b v_i) / (a^2 + b) for all i, w_i = argmin_w f_i(w) - <w, v_i> for S and S';

    y_i <- v_i, less lr alpha (w_i - mean_S) for i in S; z_i <- u_i, less lr alpha a r / (a^2 + b) (w_i - mean_S') for i in S'.
    AccFedDCD, Algorithm 2: S and S' are drawn apart in each round, which is thus two exchanges ("eager": four) where `FedDcd`
    makes one. a = s / (1 / r + s) and b = a r^2 s^2, s^2 = alpha / beta; alpha = `convexity` and beta = `smoothness` are the
    least mu_i and the largest L_i unless given, r = `fraction` is (tau - 1) / (n - 1). Means, `solver`, `delivery` and
    `warm_start` are as in `FedDcd`. The parameters handed out are the mean over the last set in which anybody answered. A client
    makes up for the rounds that it missed when it is next drawn.

    For equal lambda_i and lr = 1, E|w_i - w*|^2 <= rho^t |y*|^2 / (n alpha^2) for solutions after t rounds, in the mean over all
    i, with rho = 1 - a (Theorem 6.1); y*_i = grad f_i(w*).
    """

    sampler: Sampler
    solver: LocalSolver
    lr: Positive = 1.0
    convexity: Positive | list[Positive] | None = None
    smoothness: Positive | None = None
    fraction: Fraction | None = None
    delivery: Literal["lazy", "eager"] = static(default="lazy")
    warm_start: Literal["client", "server"] = static(default="client")
    clients: Count | None = static(default=None, repr=False)

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

    def client_state(self, x):
        zero = jax.tree.map(jnp.zeros_like, x)
        return Momentum(zero, zero, x, jnp.full((), -1, "int32"))

    def round(self, ask, server):
        def one_set(carry):
            server, number = carry
            start = server.x if self.warm_start == "server" else None
            return self.visit(ask, ask.draw(self.sampler), server, self.solve, number, start)[0], number + 1

        return ask.loop(2, one_set, (server, 2 * ask.round - 2))[0]

    @on_client
    def solve(self, client, message):
        """w_i at this round's v_i, which a client of the round's first set has at hand in the second."""
        mean, number, start = message
        state = client.state if mean is None else self.corrected(client, mean)
        missed = number // 2 - state.met // 2 - 1
        zero = jnp.zeros((), "int32")
        kept = Done(state.w, state._replace(met=number), zero, zero)
        new = self._anew(client, state, jnp.maximum(missed, 0), number, state.w if start is None else start)
        # In a cohort a branch would compute both all the same, on a copy of everybody's rows for each place.
        return jax.tree.map(lambda kept, new: jnp.where(missed < 0, kept, new), kept, new)

    def _anew(self, client, state: Momentum, missed: Int[Array, ""], number: Int[Array, ""], start: PyTree) -> Done:
        """w_i at v_i, after `missed` rounds without this client; y_i = v_i and z_i = u_i are its new state."""
        a, c, _ = self._weights()
        y, z = after(state.y, state.z, missed, a, c * (1 - a))
        v = mixed(y, z, a)
        found = self.solver.minimise(client, Tilt(linear=v), start, convexity=self.convexity)
        new = Momentum(v, mixed(z, v, c), found.point, number)
        return Done(found.point, new, jnp.asarray(found.queries, "int32"), jnp.asarray(found.missed, "int32"))

    def corrected(self, client, mean):
        state, (_, _, share) = client.state, self._weights()
        rate, second = self.lr * jnp.asarray(self.convexity), state.met % 2 == 1
        y = steps_from(state.y, jnp.where(second, 0, rate), state.w, mean)
        z = steps_from(state.z, jnp.where(second, share * rate, 0), state.w, mean)
        return state._replace(y=y, z=z)

    def _weights(self) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
        """a, c = b / (a^2 + b), which is the share of v_i in u_i, and a r / (a^2 + b)."""
        alpha, beta, r = (jnp.asarray(number) for number in (self.convexity, self.smoothness, self.fraction))
        s = jnp.sqrt(alpha / beta)
        a = s / (1 / r + s)
        b = a * r**2 * s**2
        return a, b / (a**2 + b), a * r / (a**2 + b)


def after(y: PyTree, z: PyTree, rounds: Int[Array, ""], a, g) -> tuple[PyTree, PyTree]:
    """(y, z) after `rounds` rounds of (y, z) <- ((1 - a) y + a z, g y + (1 - g) z).

    g y + a z stays, and z - y shrinks by q = 1 - a - g each time, so that of it y gains a (1 - q^rounds) / (a + g) in all.
    """
    moved = -jnp.expm1(rounds.astype(a.dtype) * jnp.log(1 - a - g)) / (a + g)
    return mixed(y, z, a * moved), mixed(z, y, g * moved)


def mixed(y: PyTree, z: PyTree, share) -> PyTree:
    """(1 - share) y + share z."""
    return jax.tree.map(lambda y, z: y + share * (z - y), y, z)


def largest_smoothness(problem: Problem) -> float:
    """Return max_i L_i, or raise `UserError` where the problem does not know it."""
    constants = problem.constants()
    if constants is None:
        raise UserError(f"AccFedDcd needs smoothness: {type(problem).__name__} does not know it")
    return float(constants.smoothness.max())
