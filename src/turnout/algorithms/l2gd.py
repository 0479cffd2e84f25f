"""L2GD: every client has a model of its own, and a penalty draws them together."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import NonNegative, Positive, Proper, record
from turnout.core.replies import if_any
from turnout.core.tree import add
from turnout.samplers import Sampler
from turnout.samplers.full_pass import full_pass


class L2gdState(NamedTuple):
    """The `mean` of the x_i, and how many `pulls` towards it clients have not made yet."""

    mean: PyTree
    pulls: Int[Array, ""]


@record
class L2gd(Algorithm):
    """L2GD: loopless local gradient descent (Hanzely and Richtarik, 2020, Algorithm 1).

    min_{x_1, ..., x_n} sum_i lambda_i (f_i(x_i) + (lam / 2) |x_i - m|^2) with m = sum_i lambda_i x_i, by steps
    x_i <- x_i - lr / p (lam) (x_i - m) with probability p, and x_i <- x_i - lr / (1 - p) grad f_i(x_i) otherwise, one coin for
    all clients.

    The lr of the paper is n times this one. A step of the penalty leaves m as it is, so that only the first of several in a row
    needs m, and clients communicate once where the coin changes from gradients to the penalty. A round is one such exchange: a
    client makes the steps of the penalty that came after the last one, when it receives m and their number, then a geometric
    number of gradient steps, mean 1 / p, and sends its x_i. All clients take part, as many at a time as the sampler draws. A lost
    reply is left out of the mean. The output is m; each client uses x_i as it was sent last, x_0 before.

    Args:
        sampler: How many clients are asked at a time; a round is charged as ceil(n / m) arbitrary selections.
        lr: Step size, > 0, lr lam <= p.
        probability: p, the probability of a step of the penalty, in (0, 1).
        lam: Weight of the penalty, >= 0.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.L2gd(t.Nice(4), lr=0.02, probability=0.3, lam=1.0), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"], trace.ledger.totals()["vectors_up"]
        (5, 40)
    """

    sampler: Sampler
    lr: Positive
    probability: Proper
    lam: NonNegative

    personalises = True

    def bind(self, problem):
        return replace(self, sampler=full_pass(self.sampler, problem.population))

    def start(self, ask, x):
        return L2gdState(x, jnp.zeros((), "int32"))

    def client_state(self, x):
        return x

    def output(self, server):
        return server.mean

    def own_model(self, x, state):
        return state

    def round(self, ask, server):
        steps_key, pulls_key = jax.random.split(ask.key())
        steps = jax.random.geometric(steps_key, self.probability, dtype="int32")
        replies = ask(self.sampler, self.descend, (server.mean, server.pulls, steps))
        mean = if_any(replies, replies.mean(), server.mean)
        ask.observe(replies.map(lambda _, x: add(x, mean, -1.0)))
        return L2gdState(mean, jax.random.geometric(pulls_key, 1 - self.probability, dtype="int32"))

    @on_client
    def descend(self, client, message):
        """x_i after the steps of the penalty that it has not made yet, and `steps` gradient steps."""
        mean, pulls, steps = message
        pull = self.lr * self.lam / self.probability
        x = client.loop(pulls, lambda x: jax.tree.map(lambda x, mean: x - pull * (x - mean), x, mean), client.state)
        x = client.loop(steps, lambda x: client.step(x, -self.lr / (1 - self.probability)), x)
        return Done(x, x, steps)
