"""FedExP: federated averaging whose server step grows with the disagreement of the clients' changes."""

from dataclasses import KW_ONLY

import jax.numpy as jnp

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_sgd, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.local_methods import norm
from turnout.core.records import Count, NonNegative, Positive, record, static
from turnout.core.tree import add, positive
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


@record
class FedExp(Algorithm):
    """FedExP: extrapolated federated averaging (Jhunjhunwala, Wang and Joshi, 2023, Algorithm 1).

    x <- x + eta mean_{i in S} d_i, d_i = y_i - x, where y_i is x after local steps y <- y - lr grad f_i(y), and

        eta = max {1, mean |d_i|^2 / (2 (|mean d_i|^2 + epsilon))}.

    The means are over the clients who answered, weighted by lambda_i, and the second one takes one more number up. The size of
    `epsilon` is that of |mean d_i|^2; it bounds eta where the clients pull apart, near a fixed point of `FedAvg`, which is one of
    FedExP too. The paper reports the mean of the last two x, since the iterates may swing; here the output is x.

    If no d_i moves x away from a common minimiser x*, as with gradient steps of lr <= 2 / L on convex, L-smooth f_i, then
    |x - x*|^2 falls in every round by at least eta (mean |d_i|^2 - eta |mean d_i|^2) >= 0.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 5 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        epsilon: What keeps eta bounded, >= 0.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, spread=0.0, seed=0)
        >>> trace = t.run(t.FedExp(t.Nice(4), lr=0.05), problem, rounds=5)
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
    epsilon: NonNegative = 1e-3

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        return fit_steps(self, problem)

    def round(self, ask, x):
        replies = ask(self.sampler, self.train, (x, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        step, square = replies.mean()
        return add(x, step, jnp.maximum(1, square / (2 * positive(jnp.square(norm(step)) + self.epsilon))))

    @on_client
    def train(self, client, message):
        """d_i, and |d_i|^2."""
        x, lr = message
        done = local_sgd(client, x, self.lr if lr is None else lr, self.steps, self.batch, self.epochs)
        return done._replace(reply=(done.reply, jnp.square(norm(done.reply))))
