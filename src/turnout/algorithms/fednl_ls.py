"""FedNL-LS: FedNL with a backtracking line search, which converges from any start."""

from dataclasses import field, replace
from typing import Any

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.fednl import FedNlState, LearnedNewton
from turnout.algorithms.learned_hessian import projected_step, with_mu
from turnout.client_solvers.line_search import ROUNDING
from turnout.core.algorithm import Ask, on_client
from turnout.core.client import Client, Done
from turnout.core.records import Fraction, Positive, record
from turnout.core.replies import Replies, if_any
from turnout.core.tree import add

TRIALS = 60
"""Limit on the trials of a line search."""


@record
class FedNlLs(LearnedNewton):
    """FedNL with a line search (Safaryan, Islamov, Qian and Richtarik, 2022, Algorithm 3), for any sampler.

    x <- x + gamma^s d, d = -H_mu^-1 grad f_S(x), with the least s = 0, 1, ... such that

        f_S(x + gamma^s d) <= f_S(x) + c gamma^s grad f_S(x) . d,   f_S = sum_{i in S} (lambda_i / p_i) f_i,

    and H_i <- H_i + C(grad^2 f_i(x) - H_i) for i in S, H = sum_i lambda_i H_i; H_mu and C are those of `FedNl`. A reply has
    f_i(x), grad f_i(x) and the payload of C; each trial is one more exchange with the cohort, for f_i alone, and is counted as
    rejected where it is. Where no trial of 60 is accepted, x stays. Without a codec H_i stays as it is.

    Let all clients take part, f be mu-strongly convex and L-smooth, and the eigenvalues of H be at most B, B >= mu. Then

        f(x_{t+1}) - f(x*) <= (1 - 2 c (mu / B) min(1, 2 gamma (1 - c) mu / L)) (f(x_t) - f(x*)),

    and near x*, for c < 1 / 2, the steps are those of `FedNl`. Proof: f(x + s d) <= f(x) + s g.d + s^2 (L / 2) |d|^2 and
    mu |d|^2 <= -g.d, so that each s <= 2 (1 - c) mu / L is accepted; -g.d >= |g|^2 / B >= 2 (mu / B) (f(x) - f(x*)).

    Args:
        sampler: Who takes part in each round.
        codec: C, of triangles; None keeps the first H_i.
        decrease: c, the share of the decrease promised by the slope that a step must bring, at most 1 / 2 for fast steps near x*.
        shrink: gamma, in (0, 1).
        mu: mu, > 0; None means sum_i lambda_i mu_i of the problem.
        first: The first H_i: the "hessian" at the first x, which a pass over all clients sends whole, or "zero".
        everyone: Sampler of that pass. Set by `bind`.

    Raises:
        UserError: Where the problem has no second derivatives, mu is not known, or there is no codec and H_i is "zero".

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.FedNlLs(t.Full(), t.codecs.TopK(count=4)), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]  # the pass, then two in each round: the first trials are accepted
        11
    """

    decrease: Fraction = 0.25
    shrink: Fraction = 0.5
    mu: Positive | None = field(default=None, kw_only=True)

    def bind(self, problem):
        return with_mu(super().bind(problem), problem)

    def round(self, ask, server):
        replies, (value, gradient), hessian = self.heard(ask, server)
        direction = projected_step(server.hessian, self.mu, gradient)
        slope = jnp.vdot(ravel_pytree(gradient)[0], ravel_pytree(direction)[0])
        values = replies.map(lambda i, reply: reply[0] if self.codec is None else reply[0][0])
        length = backtrack(self, ask, values, server.x, direction, slope, value)
        return if_any(replies, FedNlState(add(server.x, direction, length), hessian), server)

    def evaluated(self, client: Client, x: PyTree) -> PyTree:
        return client.value_and_grad(x)

    @on_client
    def value(self, client, y):
        """f_i(y)."""
        return Done(client.value(y))


def backtrack(algorithm: Any, ask: Ask, values: Replies, x: PyTree, direction: PyTree, slope, value) -> Float[Array, ""]:
    """Return gamma^s with the least s = 0, 1, ... whose step decreases f_S enough, or 0 where none of 60 does.

    Args:
        algorithm: A record with `decrease`, `shrink` and the local method `value`.
        ask: Access to the clients.
        values: Replies f_i(x).
        x: The parameters.
        direction: Where the step goes.
        slope: grad f_S(x) . direction.
        value: f_S(x).
    """
    cohort = replace(values.cohort, active=values.answered)
    rounding = ROUNDING * jnp.finfo(slope.dtype).eps * jnp.abs(value)

    def attempt(carry):
        length, _ = carry
        trial = ask(cohort, algorithm.value, add(x, direction, length))
        # A client whose reply is lost is left out on both sides.
        change = trial.average() - replace(values, answered=trial.answered).average()
        enough = change <= jnp.asarray(algorithm.decrease, slope.dtype) * length * slope + rounding
        ask.reject(~enough)
        return jnp.where(enough, length, length * jnp.asarray(algorithm.shrink, length.dtype)), enough

    first = jnp.ones_like(slope), jnp.zeros((), bool)
    length, accepted = ask.loop(TRIALS, attempt, first, until=lambda carry: carry[1])
    return jnp.where(accepted, length, 0)
