"""FedVARP: local gradient descent with the last update of each client as its control variate."""

from dataclasses import KW_ONLY, replace
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_sgd, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.records import Count, Positive, record, static
from turnout.core.tree import add, zeros
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


class FedVarpState(NamedTuple):
    """x, `mean` = sum_i lambda_i h_i, and the h_i stacked [n, ...]; None where the clients keep them."""

    x: PyTree
    mean: PyTree
    variates: PyTree


@record
class FedVarp(Algorithm):
    """Local gradient descent with control variates: FedVARP (Jhunjhunwala et al., 2022, Algorithm 1) for any sampler.

    x <- x + sum_i lambda_i h_i + sum_{i in S} (lambda_i / p_i) (g_i - h_i), then h_i <- g_i for i in S; h_i = 0 at first.

    g_i = y_i - x, where y_i is x after local steps y <- y - lr grad f_i(y). The probabilities p_i may adapt to the residuals
    g_i - h_i, see `Drift`. The step is unbiased whatever the h_i. With independent draws its variance is
    sum_i (1/p_i - 1) lambda_i^2 |g_i - h_i|^2.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 5 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        memory: Who keeps the h_i: the "server", which takes n times the memory of x, or the "clients", who then reply with
            g_i - h_i. The iterates are the same.
        clients: The number of clients, which `bind` sets.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedVarp(t.Nice(4), lr=0.01, memory="clients"), problem, rounds=5)
        >>> trace.ledger.totals()["vectors_up"]
        20
    """

    sampler: Sampler
    lr: Positive
    steps: Steps = None
    _: KW_ONLY
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None
    memory: Literal["server", "clients"] = static(default="server")
    clients: Count | None = static(default=None, repr=False)

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        return replace(fit_steps(self, problem), clients=problem.clients)

    def start(self, ask, x):
        if self.memory == "clients":
            return FedVarpState(x, zeros(x), None)
        return FedVarpState(x, zeros(x), jax.tree.map(lambda x: jnp.zeros((self.clients, *jnp.shape(x)), x.dtype), x))

    def client_state(self, x):
        return zeros(x) if self.memory == "clients" else None

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, mean, variates = server
        replies = residuals = ask(self.sampler, self.train, (x, round_lr(self.lr, self.schedule, ask.round)))
        if self.memory == "server":
            residuals = replies.map(lambda i, g: add(g, jax.tree.map(lambda h: h[i], variates), -1.0))
            answered = jnp.where(replies.answered, replies.cohort.ids, self.clients)
            variates = jax.tree.map(lambda h, g: h.at[answered].set(g, mode="drop"), variates, replies.values)
        ask.observe(residuals)
        return FedVarpState(add(add(x, mean), residuals.average()), add(mean, residuals.total()), variates)

    @on_client
    def train(self, client, message):
        """g_i, or g_i - h_i of a client that keeps h_i."""
        x, lr = message
        done = local_sgd(client, x, self.lr if lr is None else lr, self.steps, self.batch, self.epochs)
        if self.memory == "server":
            return done
        return done._replace(reply=add(done.reply, client.state, -1.0), state=done.reply)
