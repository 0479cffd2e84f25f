"""MimeMVR: local descent along the gradient of the cohort."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.algorithms.corrected_descent import corrected_descent
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Fraction, Positive, record
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler


class MimeMvrState(NamedTuple):
    """The parameters x; with momentum also those of the round before, and the estimate v of grad f there."""

    x: PyTree
    before: PyTree = None
    v: PyTree = None


class ClientGradient(NamedTuple):
    """The parameters x that a client received last, and `gradient` = grad f_i(x); zero before that."""

    x: PyTree
    gradient: PyTree


@record
class MimeMvr(Algorithm):
    """MimeMVR (Karimireddy et al., 2021; Cost-aware client selection, appendix A).

    x <- mean_{i in S} y_i, y_i being x after K = `steps` steps y <- y - lr (grad f_i(y) - grad f_i(x) + v), with
    v = grad f_S(x), f_S = sum_{i in S} (lambda_i / p_i) f_i, or with `momentum` = a
    v <- grad f_S(x) + (1 - a) (v - grad f_S(x_before)); v = grad f_S(x) in the first round.

    S is asked for v and again for y_i; clients whose first reply was lost are not asked again. The iterates stop at a floor that
    the draws cause.

    Args:
        sampler: Draws the cohort S of each round.
        lr: Step size of the clients.
        steps: Number K of local steps.
        momentum: Weight a of the new gradients, in (0, 1]; None means that v is the cohort's gradient.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.MimeMvr(t.Nice(2), lr=0.02, steps=3, momentum=0.5), problem, rounds=10)
        >>> trace.ledger.totals()["exchanges"]
        20
    """

    sampler: Sampler
    lr: Positive
    steps: Count
    momentum: Fraction | None = None

    cohorts_per_round = None

    def client_state(self, x):
        return ClientGradient(x, zeros(x))

    def start(self, ask, x):
        return MimeMvrState(x) if self.momentum is None else MimeMvrState(x, x, zeros(x))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        replies = ask(self.sampler, self.look, server.x if self.momentum is None else (server.x, server.before))
        ask.observe(replies)
        v = replies.average()
        if self.momentum is not None:
            # In the first round both gradients are at x, so that the replies are a grad f_i(x).
            scale, recalled = jnp.where(ask.round == 1, 1 / self.momentum, 1.0), 1 - self.momentum
            v = jax.tree.map(lambda new, old: scale.astype(new.dtype) * new + recalled * old, v, server.v)
        again = replace(replies.cohort, active=replies.answered)
        x = add(server.x, ask(again, self.descend, v).mean())
        return if_any(replies, MimeMvrState(x) if self.momentum is None else MimeMvrState(x, server.x, v), server)

    @on_client
    def look(self, client, message):
        """grad f_i(x), minus (1 - a) grad f_i(x_before) with momentum."""
        if self.momentum is None:
            gradient = client.grad(message)
            return Done(gradient, ClientGradient(message, gradient))
        x, before = message
        gradient = client.grad(x)
        return Done(add(gradient, client.grad(before), self.momentum - 1), ClientGradient(x, gradient), queries=2)

    @on_client
    def descend(self, client, v):
        """y_i - x."""
        return Done(corrected_descent(client, *client.state, v, self.lr, self.steps), queries=self.steps - 1)
