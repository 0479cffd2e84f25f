"""Federated averaging with a proximal term."""

from dataclasses import field

import jax

from turnout.algorithms.fedavg import FedAvg
from turnout.core.algorithm import on_client
from turnout.core.records import NonNegative, record


@record
class FedProx(FedAvg):
    """x <- x + mean_{i in S} (y_i - x), y_i from local steps y <- y - lr (grad f_i(y) + mu (y - x)) as in `LocalDescent`.

    FedProx (Li et al., 2020, Algorithm 2), its local solver being gradient descent as in its experiments; `mu` = 0 is `FedAvg`.
    """

    mu: NonNegative = field(kw_only=True)

    @on_client
    def train(self, client, message):
        """y_i - x."""
        x, _ = self.received(message)
        return self.descend(client, message, lambda y: jax.tree.map(lambda y, x: self.mu * (y - x), y, x))
