"""Federated averaging with a proximal term."""

from dataclasses import field
from typing import ClassVar

import jax

from turnout.algorithms.descent import LocalDescent, add
from turnout.exchange import on_client
from turnout.records import NonNegative, record


@record
class FedProx(LocalDescent):
    """x <- x + mean_{i in S} (y_i - x), y_i from local steps y <- y - lr (grad f_i(y) + mu (y - x)) as in `LocalDescent`.

    FedProx (Li et al., 2020, Algorithm 2), its local solver being gradient descent as in its experiments; `mu` = 0 is `FedAvg`.
    The mean is over those who answered.
    """

    mu: NonNegative = field(kw_only=True)

    usual: ClassVar[int] = 1

    def round(self, ask, x):
        replies = ask(self.sampler, self.train, self.message(ask, x))
        ask.observe(replies)
        return add(x, replies.mean())

    @on_client
    def train(self, client, message):
        """y_i - x."""
        x, _ = self.received(message)
        return self.descend(client, message, lambda y: jax.tree.map(lambda y, x: self.mu * (y - x), y, x))
