"""AdaComm: federated averaging that chooses the number of local steps by the loss."""

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.auto_lr import with_auto_lr
from turnout.client_solvers.local_sgd import local_sgd, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.records import Count, record, static
from turnout.core.tree import add, positive
from turnout.optimisers.auto_lr import AutoLr, Lr
from turnout.optimisers.schedules import Schedule, scheduled
from turnout.samplers import Sampler


class AdaCommState(NamedTuple):
    """x, the `period` b, and the excess F_0 of the `first` loss, 0 before it is known."""

    x: PyTree
    period: Float[Array, ""]
    first: Float[Array, ""]


@record
class AdaComm(Algorithm):
    """AdaComm: adaptive communication, fewer local steps as the loss falls (Wang and Joshi, 2019, section 4).

    x <- x + mean_{i in S} (y_i - x), where y_i is x after tau local steps y <- y - lr grad f_i(y), as in `FedAvg`. Rounds 1,
    1 + interval, 1 + 2 interval, ... measure F = mean_{i in S} f_i(x) - minimum at the x that they send; the first one is F_0,
    and after each other one

        b <- r if ceil(r) < ceil(b), else max(b / 2, 1), for r = max(sqrt(F / F_0) steps, 1); b = steps at first,

    so that b falls in each interval, to 1. Round t has tau = ceil(sqrt(lr_1 / lr_t) b), at most `steps`, for the lr_t of its
    schedule. By the paper's bound the best tau for a given time is proportional to sqrt(f(x) - inf f): many steps go far, but
    those of clients that differ end elsewhere than at x*.

    F is the loss that the cohort sends with its replies, for one more query in these rounds: unless all take part, F and F_0 are
    of different clients. So b changes one round after x does. In the paper blocks have equal times, all clients take part, and
    where lr falls, tau may rise above the first.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0, or "auto": see `AutoLr`.
        steps: Local steps of the first rounds, the paper's tau_0, and the most there are.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows. The loss is of all rows.
        interval: Rounds from one choice to the next.
        minimum: inf f, or less; 0 fits losses that cannot be negative. Where it is not below the first loss, tau stays.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.AdaComm(t.Nice(4), lr=0.05, steps=8, interval=1, minimum=-100.0), problem, rounds=5)
        >>> trace.ledger.totals()["queries_total"]  # 4 clients, 8 + 8 + 4 + 2 + 1 steps and 5 losses
        112
    """

    sampler: Sampler
    lr: Lr = AutoLr()
    steps: Count = 10
    _: KW_ONLY
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)
    interval: Count = 10
    minimum: float = 0.0

    def bind(self, problem):
        return with_auto_lr(self, AdaComm)

    def start(self, ask, x):
        zero = jnp.zeros((), jnp.result_type(float))
        return AdaCommState(x, zero + self.steps, zero)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, period, first = server
        at_first, now = (positive(jnp.asarray(scheduled(1.0, self.schedule, round))) for round in (1, ask.round))
        steps = jnp.minimum(jnp.ceil(jnp.sqrt(at_first / now) * period), self.steps).astype("int32")
        measuring = (ask.round - 1) % self.interval == 0
        replies = ask(self.sampler, self.train, (x, steps, measuring, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        change, loss = replies.mean()
        excess = jnp.maximum(loss - self.minimum, 0).astype(period.dtype)
        measured = measuring & jnp.any(replies.answered)
        wished = jnp.maximum(jnp.sqrt(excess / positive(first)) * self.steps, 1)
        shorter = jnp.where(jnp.ceil(wished) < jnp.ceil(period), wished, jnp.maximum(period / 2, 1))
        return AdaCommState(
            add(x, change),
            jnp.where(measured & (first > 0), shorter, period),
            jnp.where(measured & (first == 0), excess, first),
        )

    @on_client
    def train(self, client, message):
        """y_i - x, and f_i(x) if it is measured."""
        x, steps, measuring, lr = message
        done = local_sgd(client, x, self.lr if lr is None else lr, steps, self.batch, None)
        zero = jnp.zeros((), jnp.result_type(float))
        loss = client.cond(measuring, lambda x: jnp.asarray(client.value(x), zero.dtype), lambda x: zero, x)
        return done._replace(reply=(done.reply, loss), queries=done.queries + jnp.asarray(measuring, "int32"))
