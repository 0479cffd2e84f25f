"""FedNova: local changes divided by the work that made them, so that clients with more steps do not count more."""

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_steps, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, NonNegative, Positive, Proper, record, static
from turnout.core.tree import add, zeros
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


@record
class FedNova(Algorithm):
    """FedNova: federated averaging with normalised changes (Wang et al., 2020, section 5).

    x <- x + tau sum_{i in S} (lambda_i / p_i) (y_i - x) / a_i, where y_i is x after local steps
    m <- momentum m + grad f_i(y), y <- y - lr (m + mu (y - x)), from m = 0 in each round.

    a_i is how often lr grad f_i(x) is in x - y_i to first order in lr: |a_i|_1 in the paper, for lr mu <= 1. It is the number of
    steps E_i without momentum and mu, and in general s after the same steps of numbers, c <- momentum c + 1,
    s <- (1 - lr mu) s + c. tau is the mean of the a_i in the cohort, the paper's tau_eff, or a number of your own.

    Where the E_i differ, `FedAvg` minimises sum_i lambda_i E_i f_i to first order in lr, and FedNova f. In expectation over the
    cohort, the step with a fixed tau is that of full participation, whatever the sampler. The paper's program also adds up the
    a_i of momentum and mu where both are given, which counts gradients twice.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        steps: Local steps E_i, or a list with one number for each client; 5 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        momentum: Momentum of the local steps, in [0, 1).
        mu: Weight of the proximal term, >= 0.
        tau: How many local steps a round is worth, > 0; None means the mean of the a_i.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedNova(t.Nice(4), lr=0.05, steps=[1, 2, 3, 4, 4, 3, 2, 1]), problem, rounds=5)
        >>> trace.ledger.totals()["vectors_up"]
        20
    """

    sampler: Sampler
    lr: Positive
    steps: Steps = None
    _: KW_ONLY
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None
    momentum: Proper = 0.0
    mu: NonNegative = 0.0
    tau: Positive | None = None

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        return fit_steps(self, problem)

    def round(self, ask, x):
        replies = ask(self.sampler, self.train, (x, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        change, _ = replies.average()
        return add(x, change, replies.mean()[1] if self.tau is None else self.tau)

    @on_client
    def train(self, client, message):
        """(y_i - x) / a_i, and a_i."""
        x, lr = message
        lr = jnp.asarray(self.lr if lr is None else lr)

        def step(rows, carry):
            y, m, s, c = carry
            m = jax.tree.map(lambda m, g: self.momentum * m + g, m, rows.grad(y))
            y = jax.tree.map(lambda y, m, x: y - lr.astype(y.dtype) * (m + self.mu * (y - x)), y, m, x)
            c = self.momentum * c + 1
            return y, m, (1 - lr * self.mu) * s + c, c

        zero = jnp.zeros_like(lr)
        (y, _, s, _), steps = local_steps(client, step, (x, zeros(x), zero, zero), self.steps, self.batch, self.epochs)
        return Done((jax.tree.map(lambda y, x: (y - x) / s.astype(y.dtype), y, x), s), queries=steps)
