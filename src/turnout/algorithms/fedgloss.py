"""FedGloSS: sharpness-aware steps at the server, along the last change of the model, beside those of the clients."""

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.algorithms.fedsam import FedSam, uphill
from turnout.client_solvers.local_sgd import local_sgd, round_lr
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.local_methods import norm
from turnout.core.records import NonNegative, Positive, record
from turnout.core.replies import if_any
from turnout.core.tree import add, positive, zeros


class FedGloSsState(NamedTuple):
    """x, `last` = -g, the last mean of the changes y_i - z, and `variate` = h = sum_i lambda_i h_i."""

    x: PyTree
    last: PyTree
    variate: PyTree


@record
class FedGloSs(FedSam):
    """FedGloSS: sharpness of the global loss, by a step uphill at the server (Caldarola et al., 2025).

    z = x + server_radius g / |g|, where g is the last pseudo-gradient, 0 at first; y_i is z after local steps
    y <- y - lr (grad f_i(y + radius u / |u|) - h_i + (y - z) / beta), u = grad f_i(y); g <- mean_{i in S} (z - y_i),
    h_i <- h_i - (y_i - z) / beta for i in S, h <- h - sum_{i in S} lambda_i (y_i - z) / beta, and x <- x - g - beta h.

    The step uphill needs no second exchange, since it takes the pseudo-gradient of the round before. The multipliers h_i of ADMM
    hold local and global minima together: without radii it is `FedDyn` with local steps, gamma = beta, and the h_i are
    grad f_i(x*) where it stops, at the minimiser x* of f. The authors' program divides the change of h once more by the size of
    the cohort.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        radius: How far uphill the clients go, >= 0; rho_l in the paper.
        steps: Local steps, or a list with one number for each client; 5 by default.
        server_radius: How far uphill the server goes, >= 0; rho in the paper.
        beta: 1 / the weight of |y - z|^2 / 2, > 0.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedGloSs(t.Nice(4), lr=0.02, beta=0.5, steps=3), problem, rounds=5)
        >>> trace.ledger.totals()["vectors_up"], trace.ledger.totals()["queries_total"]
        (20, 120)
    """

    _: KW_ONLY
    server_radius: NonNegative = 0.1
    beta: Positive = 10.0

    def start(self, ask, x):
        return FedGloSsState(x, zeros(x), zeros(x))

    def client_state(self, x):
        return zeros(x)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, last, h = server
        length = jnp.asarray(self.server_radius / positive(norm(last)))
        z = jax.tree.map(lambda x, change: x - length.astype(change.dtype) * change, x, last)
        replies = ask(self.sampler, self.train, (z, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        change, h = replies.mean(), add(h, replies.total(), -1 / self.beta)
        return if_any(replies, FedGloSsState(add(add(x, change), h, -self.beta), change, h), server)

    @on_client
    def train(self, client, message):
        """y_i - z."""
        z, lr = message

        def direction(rows, y):
            pull = jax.tree.map(lambda y, z, h: (y - z) / self.beta - h, y, z, client.state)
            return add(uphill(rows, y, rows.grad(y), self.radius), pull)

        done = local_sgd(client, z, self.lr if lr is None else lr, self.steps, self.batch, self.epochs, direction)
        return Done(done.reply, add(client.state, done.reply, -1 / self.beta), 2 * done.queries)
