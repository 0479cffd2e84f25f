"""FedBABU: a body that is trained together below a head that stays as it is, until each client trains its own."""

from dataclasses import replace

from turnout.algorithms.fedrep import FedRep
from turnout.core.records import record


@record
class FedBabu(FedRep):
    """FedBABU: federated averaging with body aggregation and body update (Oh et al., 2022, Algorithm 1).

    x <- x + mean_{i in S} (y_i - x), where y_i is x after local steps y <- y - lr grad_y F_i(y, h) with the first head h.

    Client i uses x with the head after `own_steps` steps h_i <- h_i - own_lr grad_h F_i(x, h_i) from h_i = h on its training
    rows, the paper's fine-tuning of the head. Metrics are of this model. The head is never sent.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the shared leaves, > 0.
        steps: Local steps, or a list with one number for each client; 1 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step, those of the head too; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        leaves: Names of the leaves of the head, or patterns.
        own_lr: Step size of the head, > 0.
        own_steps: Steps of the head.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("digits")
        >>> problem = t.Neural.of(data, IidSplit(clients=10).split(data), model="perceptron", hidden=16)
        >>> algorithm = t.FedBabu(t.Nice(5), lr=0.1, leaves="layers.output", own_lr=0.1, own_steps=5)
        >>> t.run(algorithm, problem, rounds=4).ledger.totals()["queries_total"]
        20
    """

    @property
    def model_groups(self):
        (head,) = super().model_groups
        return (replace(head, trained="after"),)
