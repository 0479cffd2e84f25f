"""FedAc: federated averaging with accelerated local steps."""

from dataclasses import KW_ONLY
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_steps
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record, static
from turnout.core.tree import add, mixture
from turnout.samplers import Sampler


class FedAcState(NamedTuple):
    """w, and the `aggregate` v, which is the output."""

    w: PyTree
    aggregate: PyTree


@record
class FedAc(Algorithm):
    """FedAc: accelerated local steps, of which both sequences are averaged (Yuan and Ma, 2020, Algorithm 1).

    From the server's w and v, clients take local steps

        u = w / beta + (1 - 1 / beta) v,   v <- u - lr grad f_i(u),   w <- (1 - 1 / alpha) w + u / alpha - gamma grad f_i(u);

    then w <- mean_{i in S} w_i and v <- mean_{i in S} v_i. The output is v, the paper's w^ag. By `variant`,

        I:  alpha = 1 / (gamma mu),              beta = alpha + 1,
        II: alpha = 3 / (2 gamma mu) - 1 / 2,    beta = (2 alpha^2 - 1) / (alpha - 1),

    and gamma = max {sqrt(lr / (mu E)), lr} for E = `interval`, the paper's K. The means are over the clients who answered,
    weighted by lambda_i; in the paper all take part, with one distribution of data. Messages are two vectors each way.

    For mu-strongly convex, L-smooth f_i = f that are all alike, exact gradients and lr <= 1 / L,
    f(v) - f(x*) + (mu / 2) |w - x*|^2 falls by 1 - gamma mu in a local step of I, and
    f(v) - f(x*) + (mu / 6) |w - x*|^2 by 1 - gamma mu / 3 in one of II. II is more stable where clients drift apart.

    Args:
        sampler: Who takes part in each round.
        lr: Step size eta, > 0.
        mu: Strong convexity of f, > 0 and < 1 / lr.
        steps: Local steps, or a list with one number for each client; 5 by default.
        variant: "I" or "II".
        interval: E, with which gamma is chosen, >= 1; 1 accelerates most.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, spread=0.0, seed=0)
        >>> trace = t.run(t.FedAc(t.Nice(4), lr=0.05, mu=1.0, steps=3), problem, rounds=5)
        >>> trace.ledger.totals()["vectors_up"]
        40
    """

    sampler: Sampler
    lr: Positive
    mu: Positive
    steps: Steps = None
    _: KW_ONLY
    variant: Literal["I", "II"] = static(default="I")
    interval: Positive = 1.0
    batch: Count | None = static(default=None)
    epochs: Count | None = None

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        return fit_steps(self, problem)

    def start(self, ask, x):
        return FedAcState(x, x)

    def output(self, server):
        return server.aggregate

    def round(self, ask, server):
        replies = ask(self.sampler, self.train, (*server,))
        ask.observe(replies)
        return FedAcState(*(add(old, change) for old, change in zip(server, replies.mean(), strict=True)))

    @on_client
    def train(self, client, message):
        """w_i - w and v_i - v."""
        alpha, beta, gamma = self.coupling()

        def step(rows, carry):
            w, v = carry
            u = mixture(1 / beta, w, v)
            g = rows.grad(u)
            w = jax.tree.map(lambda w, u, g: (1 - 1 / alpha) * w + u / alpha - gamma * g, w, u, g)
            return w, add(u, g, -self.lr)

        last, steps = local_steps(client, step, message, self.steps, self.batch, self.epochs)
        return Done(tuple(add(new, old, -1.0) for new, old in zip(last, message, strict=True)), queries=steps)

    def coupling(self) -> tuple[Any, Any, Any]:
        """Return alpha, beta and gamma."""
        lr, mu = self.lr, self.mu
        gamma = jnp.maximum(jnp.sqrt(lr / (mu * self.interval)), lr)
        if self.variant == "I":
            return 1 / (gamma * mu), 1 / (gamma * mu) + 1, gamma
        alpha = 3 / (2 * gamma * mu) - 1 / 2
        return alpha, (2 * alpha**2 - 1) / (alpha - 1), gamma
