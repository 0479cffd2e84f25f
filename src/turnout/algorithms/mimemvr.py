"""MimeMVR: local descent along the gradient of the cohort."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.algorithms.correction import Corrected, Known
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Fraction, record
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros


class Server(NamedTuple):
    """The parameters x; with momentum also those `before` and the estimate v of grad f there."""

    x: PyTree
    before: PyTree = None
    v: PyTree = None


@record
class MimeMvr(Corrected):
    """x <- mean_{i in S} y_i, y_i being x after K steps y <- y - lr (grad f_i(y) - grad f_i(x) + v), with v = grad f_S(x) or

    with `momentum` = a, v <- grad f_S(x) + (1 - a) (v - grad f_S(x before)); f_S = sum_{i in S} (lambda_i / p_i) f_i.

    MimeMVR (Karimireddy et al., 2021; cost-aware client selection, appendix A): S is drawn for v and asked again for y_i, by the
    same clients who answered; v = grad f_S(x) in the first round. It stops at a floor that the draws cause.
    """

    momentum: Fraction | None = None

    def start(self, ask, x):
        return Server(x) if self.momentum is None else Server(x, x, zeros(x))

    def round(self, ask, server):
        replies = ask(self.sampler, self.look, server.x if self.momentum is None else (server.x, server.before))
        ask.observe(replies)
        v = replies.average()
        if self.momentum is not None:
            # In the first round both gradients are at x, so that the replies are a grad f_i(x).
            scale, recalled = jnp.where(ask.round == 1, 1 / self.momentum, 1.0), 1 - self.momentum
            v = jax.tree.map(lambda new, old: scale.astype(new.dtype) * new + recalled * old, v, server.v)
        x = add(server.x, self.move(ask, replies, v))
        return if_any(replies, Server(x) if self.momentum is None else Server(x, server.x, v), server)

    @on_client
    def look(self, client, message):
        """grad f_i(x), less (1 - a) times that of before."""
        if self.momentum is None:
            gradient = client.grad(message)
            return Done(gradient, Known(message, gradient))
        x, before = message
        gradient = client.grad(x)
        return Done(add(gradient, client.grad(before), self.momentum - 1), Known(x, gradient), queries=2)
