"""FedPer: federated averaging of a model whose last layers each client has for itself."""

from dataclasses import KW_ONLY

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_sgd
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.records import Count, Positive, record, static
from turnout.core.tree import add
from turnout.problems.groups import Patterns, Personal, names_as_tuple
from turnout.samplers import Sampler


@record
class FedPer(Algorithm):
    """FedPer: federated averaging with personal layers (Arivazhagan et al., 2019, Algorithms 1 and 2).

    x <- x + mean_{i in S} (y_i - x), where (y_i, h_i) is (x, h_i) after local steps (y, h) <- (y, h) - lr grad F_i(y, h).

    The personal leaves h_i stay at client i. All are the same at first, and change in rounds in which the client takes part.
    The step size is the same number in all rounds, so that one gradient step is for both parts.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 1 by default.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        leaves: Names of the personal leaves, or patterns.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("digits")
        >>> problem = t.Neural.of(data, IidSplit(clients=10).split(data), model="perceptron", hidden=16)
        >>> trace = t.run(t.FedPer(t.Nice(5), lr=0.1, leaves="layers.output"), problem, rounds=4)
        >>> trace.ledger.totals()["bytes_up"] == 4 * 5 * 4 * (64 * 16 + 16)
        True
    """

    sampler: Sampler
    lr: Positive
    steps: Steps = None
    _: KW_ONLY
    batch: Count | None = static(default=None)
    epochs: Count | None = None
    leaves: Patterns = static()

    def __post_init__(self):
        names_as_tuple(self)
        check_local_work(self, default=1)

    @property
    def model_groups(self):
        return (Personal(self.leaves, lr=self.lr, trained="within"),)

    def bind(self, problem):
        return fit_steps(self, problem)

    def round(self, ask, x):
        replies = ask(self.sampler, self.train, x)
        ask.observe(replies)
        return add(x, replies.mean())

    @on_client
    def train(self, client, x):
        """y_i - x."""
        return local_sgd(client, x, self.lr, self.steps, self.batch, self.epochs)
