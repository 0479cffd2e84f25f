"""Federated dual coordinate descent."""

from dataclasses import field, replace
from typing import Annotated, Literal, NamedTuple

import annotated_types as at
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from turnout.algorithms.mean_delivery import (
    Delivery,
    check_cohorts,
    dual_step,
    exchange_solutions,
    initial_state,
    strong_convexity,
)
from turnout.client_solvers import LocalSolver, Tilt
from turnout.client_solvers.base import of_client
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record, static
from turnout.core.replies import if_any
from turnout.core.tree import zeros
from turnout.samplers import Sampler
from turnout.theory.feddcd_bounds import feddcd_bound


class ClientDual(NamedTuple):
    """A client's dual variable y_i and its last solution w_i."""

    y: PyTree
    w: PyTree


@record
class FedDcd(Algorithm):
    """FedDCD, federated dual coordinate descent (FedDCD, Algorithm 1).

    w_i = argmin_w f_i(w) - <w, y_i>, then y_i <- y_i - lr alpha_i (w_i - mean) for i in S, from y_i = 0, with
    mean = sum_S lambda_i alpha_i w_i / sum_S lambda_i alpha_i, so that sum_i lambda_i y_i stays 0.

    S are the clients that answered. Any sampler goes: a round is a projected gradient step of the dual over S. For uniform
    cohorts of tau, equal lambda_i, equal alpha_i and lr = 1, E|w_i - w*|^2 <= rho^t |y*|^2 / (n alpha^2) for solutions after t
    rounds, in the mean over all i, with rho = 1 - (tau - 1) / (n - 1) alpha / beta (Theorem 4.1); y*_i = grad f_i(w*), beta is
    the smoothness of the f_i.

    Args:
        sampler: Draws the cohort S of each round, at least two clients.
        solver: Finds w_i at the clients.
        lr: Step size of the dual variables; theory wants 1, or 1/4 with `delta`.
        convexity: alpha_i, one number or [n]; None means mu_i of the problem.
        delta: Accuracy |w - w_i|^2 <= delta |w_0 - w_i|^2 of the solutions, w_0 being the start (inexact FedDCD, equation 7);
            theory wants w_0 to be the last w_i.
        delivery: "lazy" sends the mean with the next message to a client, "eager" by an exchange of its own.
        answer: The parameters handed out: the "mean" of the last round, or the w_i of one random "client" of it.
        warm_start: The solver starts at the "client"'s last w_i, or at the parameters of the "server", one more vector down.
        clients: Number of clients. Set by `bind`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedDcd(t.Nice(4), t.client_solvers.NewtonCg()), problem, rounds=10)
        >>> trace.ledger.totals()["exchanges"]
        10
    """

    sampler: Sampler
    solver: LocalSolver
    lr: Positive = 1.0
    convexity: Positive | list[Positive] | Float[np.ndarray, "..."] | None = field(default=None, kw_only=True)
    delta: Annotated[float, at.Gt(0), at.Lt(1)] | None = field(default=None, kw_only=True)
    delivery: Delivery = static(default="lazy", kw_only=True)
    answer: Literal["mean", "client"] = static(default="mean", kw_only=True)
    warm_start: Literal["client", "server"] = static(default="client", kw_only=True)
    clients: Count | None = static(default=None, repr=False, kw_only=True)

    is_dual = True

    def bind(self, problem):
        check_cohorts("FedDcd", self.sampler, problem.population)
        return replace(self, convexity=strong_convexity("FedDcd", self.convexity, problem), clients=problem.clients)

    def bounds(self, problem, constants):
        return feddcd_bound(
            problem, constants, self.sampler, self.lr, self.convexity, delta=self.delta, takes_mean=self.answer == "mean"
        )

    def client_state(self, x):
        return ClientDual(zeros(x), x)

    def start(self, ask, x):
        return initial_state(x, self.clients, self.delivery)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        key, cohort = ask.key(), ask.draw(self.sampler)
        start = server.x if self.warm_start == "server" else None
        new, replies = exchange_solutions(ask, cohort, server, self.solve, self.correct, self.convexity, start)
        if self.answer == "mean":
            return new
        place = jax.random.categorical(key, jnp.where(replies.answered, 0.0, -jnp.inf))
        return new._replace(x=if_any(replies, jax.tree.map(lambda w: w[place], replies.values), server.x))

    def duals(self, server, clients, round):
        rates = self.lr * jnp.broadcast_to(jnp.asarray(self.convexity, jnp.result_type(float)), (self.clients,))
        steps = rates if server.due is None else jnp.where(server.due, rates, 0)
        return jax.vmap(dual_step)(clients.y, steps, clients.w, server.owed)

    @on_client
    def solve(self, client, message):
        """w_i, after the step for the last mean where that comes along."""
        mean, start = message
        y, w = client.state if mean is None else self._corrected(client, mean)
        solved = self.solver.minimise(client, Tilt(linear=y), w if start is None else start, self.delta, self.convexity)
        return Done(solved.point, ClientDual(y, solved.point), solved.queries, solved.missed)

    @on_client
    def correct(self, client, mean):
        """Nothing; the client makes the step for `mean`."""
        return Done(None, self._corrected(client, mean), queries=0)

    def _corrected(self, client, mean) -> ClientDual:
        """Return the client's state after the step y_i - lr alpha_i (w_i - mean)."""
        y, w = client.state
        return ClientDual(dual_step(y, self.lr * of_client(self.convexity, client.id), w, mean), w)
