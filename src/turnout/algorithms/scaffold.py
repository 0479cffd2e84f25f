"""SCAFFOLD: local gradient descent with control variates that correct the drift of the clients."""

from dataclasses import KW_ONLY
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_sgd, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record, static
from turnout.core.tree import add, zeros
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


class ScaffoldState(NamedTuple):
    """x, and `variate` = c = sum_i lambda_i c_i."""

    x: PyTree
    variate: PyTree


@record
class Scaffold(Algorithm):
    """SCAFFOLD: local steps corrected by control variates (Karimireddy et al., 2020, Algorithm 1).

    x <- x + server_lr mean_{i in S} (y_i - x), where y_i is x after E_i local steps y <- y - lr (grad f_i(y) - c_i + c).

    A round is one exchange, in which a client also sets its variate c_i by `option`: "I" is c_i <- grad f_i(x), on all rows and
    for one more query; "II" is c_i <- c_i - c + (x - y_i) / (E_i lr), the mean of the gradients of its steps. The server adds
    sum_{i in S} lambda_i (change of c_i) to c. All variates are 0 at first.

    With c_i = grad f_i(x*) no client moves away from the optimum x*. So with exact gradients x* is the fixed point for any
    sampler, any numbers of steps E_i and any positive weights in the mean, which is over the clients who answered, as in the
    paper.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        steps: Local steps E_i, or a list with one number for each client; 5 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        option: How clients set their variates, "I" or "II".
        server_lr: Step size of the server, > 0.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Scaffold(t.Nice(4), lr=0.01), problem, rounds=5)
        >>> trace.ledger.totals()["vectors_up"]
        40
    """

    sampler: Sampler
    lr: Positive
    steps: Steps = None
    _: KW_ONLY
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None
    option: Literal["I", "II"] = static(default="II")
    server_lr: Positive = 1.0

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        return fit_steps(self, problem)

    def start(self, ask, x):
        return ScaffoldState(x, zeros(x))

    def client_state(self, x):
        return zeros(x)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, c = server
        replies = ask(self.sampler, self.train, (x, c, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        (change, _), (_, variate_change) = replies.mean(), replies.total()
        return ScaffoldState(add(x, change, self.server_lr), add(c, variate_change))

    @on_client
    def train(self, client, message):
        """y_i - x and the change of c_i."""
        x, c, lr = message
        lr, correction = self.lr if lr is None else lr, add(c, client.state, -1.0)
        direction = lambda rows, y: add(rows.grad(y), correction)  # noqa: E731
        done = local_sgd(client, x, lr, self.steps, self.batch, self.epochs, direction)
        rate = jnp.asarray(done.queries, jnp.result_type(float)) * lr
        option_2 = jax.tree.map(lambda change, b: -change / rate - b, done.reply, correction)
        variate = client.grad(x) if self.option == "I" else option_2
        reply = done.reply, add(variate, client.state, -1.0)
        return Done(reply, state=variate, queries=done.queries + int(self.option == "I"))
