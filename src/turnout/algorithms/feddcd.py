"""Federated dual coordinate descent."""

from dataclasses import replace
from typing import Annotated, Literal, NamedTuple

import annotated_types as at
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from turnout.algorithms.dual import DualMethod, check_cohorts, steps_from, strong_convexity
from turnout.client_solvers import LocalSolver, Tilt
from turnout.client_solvers.base import own
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record, static
from turnout.core.replies import if_any
from turnout.samplers import Sampler


class Dual(NamedTuple):
    """A client's dual variable y_i and its last solution w_i."""

    y: PyTree
    w: PyTree


@record
class FedDcd(DualMethod):
    """w_i = argmin_w f_i(w) - <w, y_i>, then y_i <- y_i - lr alpha_i (w_i - mean) for i in S, from y_i = 0.

    mean = sum_S lambda_i alpha_i w_i / sum_S lambda_i alpha_i, so that sum_i lambda_i y_i stays 0 (FedDCD, Algorithm 1); S are
    those who answered, and alpha_i = `convexity`, one number or n, None meaning mu_i. A client warm-starts `solver` at its last
    w_i, or with `warm_start` = "server" at the parameters handed out, one more vector down, as the released program does for
    networks. With `delta` it has to find its w_i up to |w - w_i|^2 <= delta |w_0 - w_i|^2 from that start w_0, where theory wants
    lr = 1/4 (inexact FedDCD, equation 7) and w_0 its last w_i. `delivery` is as in `DualMethod`. The parameters handed out are
    the mean of the last round, or with `answer` = "client" the w_i of one random client that answered in it.

    Any sampler goes: a round is a projected gradient step of the dual over S. For uniform cohorts of tau, equal lambda_i, equal
    alpha_i and lr = 1, E|w_i - w*|^2 <= rho^t |y*|^2 / (n alpha^2) for solutions after t rounds, in the mean over all i, with
    rho = 1 - (tau - 1) / (n - 1) alpha / beta (Theorem 4.1); y*_i = grad f_i(w*), and beta is the smoothness of the f_i.
    """

    sampler: Sampler
    solver: LocalSolver
    lr: Positive = 1.0
    convexity: Positive | list[Positive] | Float[np.ndarray, "..."] | None = None
    delta: Annotated[float, at.Gt(0), at.Lt(1)] | None = None
    delivery: Literal["lazy", "eager"] = static(default="lazy")
    answer: Literal["mean", "client"] = static(default="mean")
    warm_start: Literal["client", "server"] = static(default="client")
    clients: Count | None = static(default=None, repr=False)

    def bind(self, problem):
        check_cohorts("FedDcd", self.sampler, problem.population)
        return replace(self, convexity=strong_convexity("FedDcd", self.convexity, problem), clients=problem.clients)

    def client_state(self, x):
        return Dual(jax.tree.map(jnp.zeros_like, x), x)

    def round(self, ask, server):
        key, cohort = ask.key(), ask.draw(self.sampler)
        start = server.x if self.warm_start == "server" else None
        new, replies = self.visit(ask, cohort, server, self.solve, start)
        if self.answer == "mean":
            return new
        place = jax.random.categorical(key, jnp.where(replies.answered, 0.0, -jnp.inf))
        return new._replace(x=if_any(replies, jax.tree.map(lambda w: w[place], replies.values), server.x))

    @on_client
    def solve(self, client, message):
        """w_i, after the step that is owed if its mean comes along."""
        mean, start = message
        y, w = client.state if mean is None else self.corrected(client, mean)
        found = self.solver.minimise(client, Tilt(linear=y), w if start is None else start, self.delta, self.convexity)
        return Done(found.point, Dual(y, found.point), found.queries, found.missed)

    def corrected(self, client, mean):
        y, w = client.state
        return Dual(steps_from(y, self.lr * own(self.convexity, client.id), w, mean), w)
