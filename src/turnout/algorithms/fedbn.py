"""FedBN: federated averaging of a model whose normalisation each client has for itself."""

from dataclasses import KW_ONLY

from turnout.algorithms.fedper import FedPer
from turnout.core.records import record, static
from turnout.problems.groups import Patterns


@record
class FedBn(FedPer):
    """FedBN: federated averaging with local normalisation (Li et al., 2021, Algorithm 1).

    x <- x + mean_{i in S} (y_i - x), where (y_i, h_i) is (x, h_i) after local steps (y, h) <- (y, h) - lr grad F_i(y, h).

    The leaves h_i of normalisation, its factors, offsets and running statistics, stay at client i. It is `FedPer` with these.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 1 by default.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        leaves: Names of the leaves of normalisation, or patterns, each of which matches some; by default all in parts with
            "norm" in their names.

    Examples:
        >>> import turnout as t
        >>> t.FedBn(t.Nice(5), lr=0.1, leaves=["bn1", "bn2"]).model_groups[0].leaves
        ('bn1', 'bn2')
    """

    _: KW_ONLY
    leaves: Patterns = static(default="*norm*")
