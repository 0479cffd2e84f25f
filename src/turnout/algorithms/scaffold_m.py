"""SCAFFOLD-M: SCAFFOLD with momentum in the local steps."""

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
from jaxtyping import PyTree

from turnout.algorithms.fedcm import mean_gradient
from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add, mixture, zeros
from turnout.optimisers.schedules import Schedule, scheduled
from turnout.samplers import Sampler


class ScaffoldMState(NamedTuple):
    """x, the `momentum` d, and `variate` = c = sum_i lambda_i c_i."""

    x: PyTree
    momentum: PyTree
    variate: PyTree


@record
class ScaffoldM(Algorithm):
    """SCAFFOLD-M: control variates and momentum in local steps (Cheng et al., 2024, Algorithm 2), for any sampler.

    g_i is the mean of grad f_i(y) in the E_i local steps y <- y - lr (alpha (grad f_i(y) - c_i + c) + (1 - alpha) d) from x; then
    d <- alpha (c + sum_{i in S} (lambda_i / p_i) (g_i - c_i)) + (1 - alpha) d, x <- x - server_lr d,
    c <- c + sum_{i in S} lambda_i (g_i - c_i) and c_i <- g_i for i in S. All of d, c and c_i are 0 at first.

    The paper has beta for alpha, and uniform cohorts. It is `FedCm` with control variates: with exact gradients x* is the fixed
    point for any sampler and any numbers of steps. A reply is one vector, g_i - c_i. With alpha = 1, server_lr = E lr, all
    clients and all E_i = E it is `Scaffold` with option II.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        alpha: Weight of the new gradients, in (0, 1].
        server_lr: Step size of the server, > 0.
        steps: Local steps E_i, or a list with one number for each client; 5 by default.
        schedule: Factor of lr and server_lr in each round; lr times it is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.ScaffoldM(t.Nice(4), lr=0.05, alpha=0.2, server_lr=0.1, steps=3), problem, rounds=5)
        >>> trace.ledger.totals()["vectors_down"], trace.ledger.totals()["vectors_up"]
        (60, 20)
    """

    sampler: Sampler
    lr: Positive
    alpha: Fraction
    server_lr: Positive
    steps: Steps = None
    _: KW_ONLY
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        return fit_steps(self, problem)

    def start(self, ask, x):
        return ScaffoldMState(x, zeros(x), zeros(x))

    def client_state(self, x):
        return zeros(x)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, d, c = server
        replies = ask(self.sampler, self.train, (x, d, c, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        d = mixture(self.alpha, add(c, replies.average()), d)
        step = scheduled(self.server_lr, self.schedule, ask.round)
        return if_any(replies, ScaffoldMState(add(x, d, -step), d, add(c, replies.total())), server)

    @on_client
    def train(self, client, message):
        """g_i - c_i."""
        x, d, c, lr = message
        pull = jax.tree.map(lambda c, b, d: self.alpha * (c - b) + (1 - self.alpha) * d, c, client.state, d)
        lr = self.lr if lr is None else lr
        done = mean_gradient(client, x, pull, self.alpha, lr, self.steps, self.batch, self.epochs)
        return done._replace(reply=add(done.reply, client.state, -1.0), state=done.reply)
