"""Federated averaging, also known as local gradient descent."""

from dataclasses import KW_ONLY

from turnout.algorithms.auto_lr import with_auto_lr
from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_sgd, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.records import Count, record, static
from turnout.core.tree import add
from turnout.optimisers.auto_lr import AutoLr, Lr
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


@record
class FedAvg(Algorithm):
    """Federated averaging: local gradient steps, then the mean of the results (McMahan et al., 2017, Algorithm 1).

    x <- x + mean_{i in S} (y_i - x), where y_i is x after local steps y <- y - lr grad f_i(y).

    The mean is over the clients who answered, weighted by lambda_i, as in practice. `MbLocalGd` is its unbiased counterpart.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0, or "auto": see `AutoLr`.
        steps: Local steps, or a list with one number for each client; 1 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedAvg(t.Nice(4), lr=0.05, steps=3), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"], trace.ledger.totals()["queries_total"]
        (5, 60)
    """

    sampler: Sampler
    lr: Lr = AutoLr()
    steps: Steps = None
    _: KW_ONLY
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None

    replies_differences = True

    def __post_init__(self):
        check_local_work(self, default=1)

    def bind(self, problem):
        return with_auto_lr(fit_steps(self, problem), FedAvg)

    def round(self, ask, x):
        return add(x, self._asked(ask, x).mean())

    def _asked(self, ask, x):
        """Return the replies y_i - x of a cohort."""
        replies = ask(self.sampler, self.train, (x, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        return replies

    @on_client
    def train(self, client, message):
        """y_i - x."""
        x, lr = message
        return local_sgd(client, x, self.lr if lr is None else lr, self.steps, self.batch, self.epochs)
