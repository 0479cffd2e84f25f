"""Local descent along an estimate of grad f: what algorithms share whose clients know their own gradient where they start."""

from dataclasses import replace
from typing import NamedTuple

from jaxtyping import PyTree

from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.client import Client, Done
from turnout.core.records import Count, Positive, record
from turnout.core.replies import Replies
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler


class Known(NamedTuple):
    """The parameters x that a client was sent last, and `gradient` = grad f_i(x); zero before that."""

    x: PyTree
    gradient: PyTree


@record
class Corrected(Algorithm):
    """A cohort is asked twice: for what an estimate v of grad f(x) is made of, and for y_i, x after K = `steps` steps

        y <- y - lr (grad f_i(y) - grad f_i(x) + v).

    Clients keep x and grad f_i(x) in between, so that v alone goes down, and the first step needs no query. Whose first reply was
    lost is not asked again.
    """

    sampler: Sampler
    lr: Positive
    steps: Count

    def client_state(self, x):
        return Known(x, zeros(x))

    def output(self, server):
        return server.x

    def move(self, ask: Ask, replies: Replies, v: PyTree) -> PyTree:
        """Return the mean of y_i - x over those who answered with `replies` and do so again."""
        again = replace(replies.cohort, active=replies.answered)
        return ask(again, self.descend, v).mean()

    @on_client
    def descend(self, client, v):
        """y_i - x."""
        return Done(corrected(client, *client.state, v, self.lr, self.steps), queries=self.steps - 1)


def corrected(client: Client, x: PyTree, gradient: PyTree, v: PyTree, lr, steps) -> PyTree:
    """Return y - x after `steps` times y <- y - lr (grad f_i(y) - `gradient` + v) from y = x.

    `gradient` is grad f_i(x), so that the first step is -lr v, and the others need one query each.
    """
    shift = add(v, gradient, -1.0)
    y = client.loop(steps - 1, lambda y: add(y, add(client.grad(y), shift), -lr), add(x, v, -lr))
    return add(y, x, -1.0)
