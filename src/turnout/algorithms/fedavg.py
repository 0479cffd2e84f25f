"""Federated averaging, also known as local gradient descent."""

from typing import ClassVar

from turnout.algorithms.descent import LocalDescent
from turnout.core.records import record
from turnout.core.tree import add


@record
class FedAvg(LocalDescent):
    """x <- x + mean_{i in S} (y_i - x), with y_i as in `LocalDescent` (McMahan et al., 2017, Algorithm 1).

    The mean is over those who answered, as in practice: for its unbiased counterpart see `MbLocalGd`.
    """

    usual: ClassVar[int] = 1

    def round(self, ask, x):
        replies = ask(self.sampler, self.train, self.message(ask, x))
        ask.observe(replies)
        return add(x, replies.mean())
