"""Amplified SCAFFOLD: control variates that change once in a period, and changes over a period that are made longer."""

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from turnout.algorithms.amplified_fedavg import amplified
from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_sgd, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record, static
from turnout.core.tree import add, mixture, where, zeros
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


class AmplifiedScaffoldState(NamedTuple):
    """x, `anchor` = a, `variate` = c = sum_i lambda_i c_i, and `coming`, the c of the next period as far as it is known."""

    x: PyTree
    anchor: PyTree
    variate: PyTree
    coming: PyTree


class PeriodVariate(NamedTuple):
    """c_i, the mean g_i of the gradients in the last period that the client took part in, their number, and that period."""

    variate: PyTree
    mean: PyTree
    steps: Int[Array, ""]
    period: Int[Array, ""]


@record
class AmplifiedScaffold(Algorithm):
    """SCAFFOLD for clients that take turns: variates and amplification by periods (Crawshaw and Liu, 2024, Algorithm 1).

    x <- x + mean_{i in S} (y_i - x), where y_i is x after E_i local steps y <- y - lr (grad f_i(y) - c_i + c). After each
    `period` of P rounds, x <- a + amplification (x - a), a <- x, and c_i <- g_i, the mean of the gradients in all local steps of
    client i in the period, if it took part; c = sum_i lambda_i c_i.

    A client that is drawn again in a later period moves its g_i to c_i then. Its reply has the change of g_i beside y_i - x, so
    that the server knows c at the end of the period without another exchange. All variates are 0 at first.

    With c_i = grad f_i(x*) no client moves away from the optimum x*, whoever takes part and when.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        period: P, the number of rounds in which all clients should take part about as often.
        amplification: Factor of the change over a period, > 0; gamma in the paper.
        steps: Local steps E_i, or a list with one number for each client; 5 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> turns = [[i, i // 4 * 2, i // 4 * 2 + 2] for i in range(8)]  # client, from, to
        >>> algorithm = t.AmplifiedScaffold(t.Available(t.Nice(2), trace=turns, period=4), lr=0.01, period=4, amplification=1.5)
        >>> t.run(algorithm, problem, rounds=8).ledger.totals()["vectors_up"]
        32
    """

    sampler: Sampler
    lr: Positive
    period: Count
    amplification: Positive
    steps: Steps = None
    _: KW_ONLY
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        return fit_steps(self, problem)

    def start(self, ask, x):
        return AmplifiedScaffoldState(x, x, zeros(x), zeros(x))

    def client_state(self, x):
        none = jnp.zeros((), "int32")
        return PeriodVariate(zeros(x), zeros(x), none, none)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, anchor, c, coming = server
        number = (ask.round - 1) // jnp.asarray(self.period, "int32")
        replies = ask(self.sampler, self.train, (x, c, number, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        (change, _), (_, means) = replies.mean(), replies.total()
        x, coming = add(x, change), add(coming, means)
        ends = ask.round % jnp.asarray(self.period, "int32") == 0
        c = where(ends, coming, c)
        return AmplifiedScaffoldState(*amplified(self, x, anchor, ask.round), c, coming)

    @on_client
    def train(self, client, message):
        """y_i - x and the change of g_i."""
        x, c, number, lr = message
        lr, (variate, mean, steps, last) = self.lr if lr is None else lr, client.state
        another = number != last
        variate = where(another, mean, variate)
        steps = jnp.where(another, 0, steps)
        correction = add(c, variate, -1.0)
        direction = lambda rows, y: add(rows.grad(y), correction)  # noqa: E731
        done = local_sgd(client, x, lr, self.steps, self.batch, self.epochs, direction)
        taken = jnp.asarray(done.queries, "int32")
        here, before = (jnp.asarray(count, jnp.result_type(float)) for count in (taken, steps))
        gradient = jax.tree.map(lambda change, b: -change / (here * lr) - b, done.reply, correction)
        new = mixture(here / (before + here), gradient, mean)
        state = PeriodVariate(variate, new, steps + taken, jnp.asarray(number, "int32"))
        return Done((done.reply, add(new, mean, -1.0)), state=state, queries=done.queries)
