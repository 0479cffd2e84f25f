"""FedCM: clients whose local steps follow the server's momentum."""

from dataclasses import KW_ONLY
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_sgd, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Client, Done
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add, mixture, zeros
from turnout.optimisers.schedules import Schedule, scheduled
from turnout.samplers import Sampler


class FedCmState(NamedTuple):
    """x, and the `momentum` d."""

    x: PyTree
    momentum: PyTree


@record
class FedCm(Algorithm):
    """FedCM: federated learning with client-level momentum (Xu et al., 2021, Algorithm 2), for any sampler.

    g_i is the mean of grad f_i(y) in the E_i local steps y <- y - lr (alpha grad f_i(y) + (1 - alpha) d) from x; then
    d <- alpha sum_{i in S} (lambda_i / p_i) g_i + (1 - alpha) d, x <- x - server_lr d, with d = 0 at first.

    For clients of equal weight in uniform cohorts, d is the paper's mean of (x - y_i) / (E_i lr). FedAvg-M (Cheng et al., 2024,
    Algorithm 1) is the same. The server's step is the paper's, so that it does not grow with the E_i: server_lr = E lr makes x
    the mean of the y_i where all E_i = E. With one step and all clients it is gradient descent with heavy-ball momentum.
    A lost reply counts as g_i = 0.

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
        >>> trace = t.run(t.FedCm(t.Nice(4), lr=0.05, alpha=0.2, server_lr=0.1, steps=3), problem, rounds=5)
        >>> trace.ledger.totals()["vectors_down"]
        40
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
        return FedCmState(x, zeros(x))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, d = server
        replies = ask(self.sampler, self.train, (x, d, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        d = mixture(self.alpha, replies.average(), d)
        step = scheduled(self.server_lr, self.schedule, ask.round)
        return if_any(replies, FedCmState(add(x, d, -step), d), server)

    @on_client
    def train(self, client, message):
        """g_i."""
        x, d, lr = message
        pull = jax.tree.map(lambda d: (1 - self.alpha) * d, d)
        return mean_gradient(client, x, pull, self.alpha, self.lr if lr is None else lr, self.steps, self.batch, self.epochs)


def mean_gradient(
    client: Client, x: PyTree, pull: PyTree, alpha: Any, lr: Any, steps: Any, batch: int | None, epochs: Any
) -> Done:
    """Reply with the mean of grad f_i(y) in local steps y <- y - lr (alpha grad f_i(y) + pull) from x; each is one query.

    Args:
        client: The client.
        x: Parameters to start from.
        pull: What is added to each step.
        alpha: Weight of the gradient.
        lr: Step size.
        steps: As in `local_steps`.
        batch: As in `local_steps`.
        epochs: As in `local_steps`.
    """

    def direction(rows, y):
        return jax.tree.map(lambda g, pull: alpha * g + pull, rows.grad(y), pull)

    done = local_sgd(client, x, lr, steps, batch, epochs, direction)
    rate = jnp.asarray(done.queries, jnp.result_type(float)) * lr
    mean = jax.tree.map(lambda change, pull: (-change / rate.astype(change.dtype) - pull) / alpha, done.reply, pull)
    return done._replace(reply=mean)
