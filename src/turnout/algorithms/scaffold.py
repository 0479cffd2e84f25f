"""SCAFFOLD: local gradient descent whose clients correct their drift."""

from typing import Literal

import jax
import jax.numpy as jnp

from turnout.algorithms.descent import LocalDescent
from turnout.algorithms.variates import ControlVariates, Server
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Positive, record, static
from turnout.core.tree import add


@record
class Scaffold(ControlVariates, LocalDescent):
    """x <- x + server_lr mean_{i in S} (y_i - x), where y_i is x after E_i local steps y <- y - lr (grad f_i(y) - c_i + c).

    Karimireddy et al. (2020), Algorithm 1, one exchange a round, E_i as in `LocalDescent`. A client then sets its variate c_i by
    `option`: "I" is c_i <- grad f_i(x), on all rows and for one more query; "II" is c_i <- c_i - c + (x - y_i) / (E_i lr), the
    mean of the gradients of its steps. The server adds sum_{i in S} lambda_i (change of c_i) to c; all are 0 at first.

    With c_i = grad f_i(x*) no client moves from the optimum x*: with exact gradients it is the fixed point for any sampler, any
    numbers of steps E_i and any positive weights in the mean, which here is the one over those who answered, as in the paper.
    """

    option: Literal["I", "II"] = static(default="II")
    server_lr: Positive = 1.0

    def round(self, ask, server):
        replies = ask(self.sampler, self.train, (self.message(ask, server.x), server.variate))
        ask.observe(replies)
        (moved, _), (_, change) = replies.mean(), replies.total()
        return Server(add(server.x, moved, self.server_lr), add(server.variate, change))

    @on_client
    def train(self, client, message):
        """y_i - x and the change of c_i."""
        start, variate = message
        x, lr = self.received(start)
        correction = add(variate, client.state, -1.0)
        done = self.descend(client, start, also=lambda _: correction)
        if self.option == "I":
            new, queries = client.grad(x), done.queries + 1
        else:
            rate = jnp.asarray(done.queries, jnp.result_type(float)) * lr
            new, queries = jax.tree.map(lambda moved, b: -moved / rate - b, done.reply, correction), done.queries
        return Done((done.reply, add(new, client.state, -1.0)), state=new, queries=queries)
