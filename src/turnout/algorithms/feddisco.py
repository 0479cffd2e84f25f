"""FedDisco: a mean in which clients count less the more their labels differ from those of all."""

from dataclasses import KW_ONLY, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from turnout.algorithms.fedavg import FedAvg
from turnout.core.errors import UserError
from turnout.core.records import NonNegative, record
from turnout.core.replies import Replies
from turnout.core.tree import add, positive
from turnout.samplers.clustering import label_shares


@record
class FedDisco(FedAvg):
    """FedDisco: discrepancy-aware weights in the mean of `FedAvg` (Ye et al., 2023).

    x <- x + sum_{i in S} w_i (y_i - x) / sum_{i in S} w_i, w_i = max(0, n_i - a d_i / sum_{j in S} d_j + b), where
    n_i = lambda_i / sum_{j in S} lambda_j and d_i = KL(D_i, D) = sum_c D_ic log(D_ic / D_c).

    D_ic is the share of label c among the rows of client i, and D = sum_i lambda_i D_i. The division by the sum of the d_j is in
    the authors' program. With a = b = 0 it is FedAvg, also where all w_i are 0. The mean is biased on purpose: the fixed point
    is drawn to clients whose labels are like those of all.

    The server knows the d_i before the run; that clients tell it their label counts once is not in the ledger.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 1 by default.
        a: Weight of the discrepancies, >= 0.
        b: Added to all weights, >= 0.
        discrepancy: d_i >= 0, one number or [n]; default: that of the labels of the problem.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Raises:
        UserError: On binding, if `discrepancy` is left out and the problem has no classes, or has not n numbers >= 0.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> algorithm = t.FedDisco(t.Nice(4), lr=0.05, discrepancy=[0.1, 0.4, 0.2, 0.3, 0.1, 0.1, 0.5, 0.2])
        >>> t.run(algorithm, problem, rounds=5).ledger.totals()["vectors_up"]
        20
    """

    _: KW_ONLY
    a: NonNegative = 0.5
    b: NonNegative = 0.1
    discrepancy: NonNegative | list[NonNegative] | np.ndarray | None = None

    replies_differences = False

    def bind(self, problem):
        discrepancy = discrepancies(problem) if self.discrepancy is None else np.asarray(self.discrepancy, float)
        n = problem.clients
        if discrepancy.shape not in ((), (n,)) or not np.all((discrepancy >= 0) & np.isfinite(discrepancy)):
            raise UserError(f"FedDisco.discrepancy must be a number >= 0, or {n} of them, one for each client")
        return replace(super().bind(problem), discrepancy=np.broadcast_to(discrepancy, n))

    def round(self, ask, server):
        replies = self._asked(ask, server)
        w = self._weights(replies)
        return add(server, replies.scaled(w / positive(replies.cohort.share)).total())

    def _weights(self, replies: Replies) -> Float[Array, " m"]:
        """Return the w_i divided by their sum, 0 for clients that did not answer."""
        heard, share = replies.answered, replies.cohort.share
        d = jnp.asarray(self.discrepancy, share.dtype)[replies.cohort.ids]
        n, d = (part / positive(jnp.sum(part)) for part in (jnp.where(heard, share, 0), jnp.where(heard, d, 0)))
        w = jnp.where(heard, jnp.maximum(0, n - self.a * d + self.b), 0)
        return jnp.where(jnp.any(w > 0), w / positive(jnp.sum(w)), n)


def discrepancies(problem) -> Float[np.ndarray, " n"]:
    """Return KL(D_i, D), D_i being the shares of the labels of client i and D those of all, weighted by lambda_i.

    Args:
        problem: A problem with features and labels.

    Raises:
        UserError: Where it has no classes.
    """
    if not problem.classifies or getattr(problem, "rows", None) is None:
        raise UserError(f"FedDisco needs labels of classes, which {type(problem).__name__} does not have: give discrepancy")
    shares = label_shares(problem)
    everyone = np.asarray(problem.population.shares) @ shares
    ratio = np.where(shares > 0, shares, 1) / np.where(shares > 0, everyone, 1)
    return np.sum(shares * np.log(ratio), axis=1)
