"""Local gradient descent with control variates: a memory of each client's last update."""

from dataclasses import replace
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.algorithms.descent import LocalDescent
from turnout.core.algorithm import on_client
from turnout.core.records import Count, record, static
from turnout.core.tree import add, zeros


class Server(NamedTuple):
    """x, `mean` = sum_i lambda_i h_i, and the h_i stacked [n, ...] where the server keeps them, else None."""

    x: PyTree
    mean: PyTree
    variates: PyTree


@record
class FedVarp(LocalDescent):
    """x <- x + sum_i lambda_i h_i + sum_{i in S} (lambda_i / p_i) (g_i - h_i), then h_i <- g_i for i in S; h_i = 0 at first.

    g_i = y_i - x with y_i as in `LocalDescent`. It is FedVARP's estimator (Jhunjhunwala et al., 2022, Algorithm 1) with any
    probabilities p_i, which may adapt: see `Drift`. The step is unbiased whatever the h_i; with independent draws its variance is
    sum_i (1/p_i - 1) lambda_i^2 |g_i - h_i|^2. `memory` says who keeps the h_i: the "server", n times the parameters, or the
    "clients", who then reply with g_i - h_i and keep g_i once that was used. The iterates are the same.
    """

    memory: Literal["server", "clients"] = static(default="server")
    clients: Count | None = static(default=None, repr=False)

    def bind(self, problem):
        return replace(super().bind(problem), clients=problem.clients)

    def start(self, ask, x):
        if self.memory == "clients":
            return Server(x, zeros(x), None)
        return Server(x, zeros(x), jax.tree.map(lambda x: jnp.zeros((self.clients, *jnp.shape(x)), x.dtype), x))

    def client_state(self, x):
        return zeros(x) if self.memory == "clients" else None

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, mean, variates = server
        replies = residuals = ask(self.sampler, self.train, self.message(ask, x))
        if self.memory == "server":
            residuals = replies.map(lambda i, g: add(g, jax.tree.map(lambda h: h[i], variates), -1.0))
            variates = kept(variates, replies)
        ask.observe(residuals)
        return Server(add(add(x, mean), residuals.average()), add(mean, residuals.total()), variates)

    @on_client
    def train(self, client, message):
        """g_i, or g_i - h_i of a client that keeps h_i."""
        done = super().train(client, message)
        if self.memory == "server":
            return done
        return done._replace(reply=add(done.reply, client.state, -1.0), state=done.reply)


def kept(variates: PyTree, replies) -> PyTree:
    """Return h_i = g_i for the clients who answered, and the others' h_i as they were."""
    target = jnp.where(replies.answered, replies.cohort.ids, jax.tree.leaves(variates)[0].shape[0])
    return jax.tree.map(lambda h, g: h.at[target].set(g, mode="drop"), variates, replies.values)
