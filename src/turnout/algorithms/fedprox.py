"""Federated averaging with a proximal term."""

from dataclasses import KW_ONLY

import jax

from turnout.algorithms.auto_lr import with_auto_lr
from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_sgd, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.records import Count, NonNegative, record, static
from turnout.core.tree import add
from turnout.optimisers.auto_lr import AutoLr, Lr
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


@record
class FedProx(Algorithm):
    """Federated averaging with a proximal term: FedProx (Li et al., 2020, Algorithm 2).

    x <- x + mean_{i in S} (y_i - x), where y_i is x after local steps y <- y - lr (grad f_i(y) + mu (y - x)).

    The local solver is gradient descent, as in the paper's experiments. With mu = 0 it is `FedAvg`.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0, or "auto": see `AutoLr`.
        steps: Local steps, or a list with one number for each client; 1 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        mu: Weight of the proximal term, >= 0.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedProx(t.Nice(4), lr=0.05, steps=3, mu=0.5), problem, rounds=5)
        >>> trace.ledger.totals()["queries_total"]
        60
    """

    sampler: Sampler
    lr: Lr = AutoLr()
    steps: Steps = None
    _: KW_ONLY
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None
    mu: NonNegative

    def __post_init__(self):
        check_local_work(self, default=1)

    def bind(self, problem):
        return with_auto_lr(fit_steps(self, problem), FedProx)

    def round(self, ask, x):
        replies = ask(self.sampler, self.train, (x, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        return add(x, replies.mean())

    @on_client
    def train(self, client, message):
        """y_i - x."""
        x, lr = message

        def direction(rows, y):
            return add(rows.grad(y), jax.tree.map(lambda y, x: self.mu * (y - x), y, x))

        return local_sgd(client, x, self.lr if lr is None else lr, self.steps, self.batch, self.epochs, direction)
