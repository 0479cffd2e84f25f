"""Fed-LAMB: local steps scaled layer by layer and entry by entry."""

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_steps, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.local_methods import norm
from turnout.core.records import Count, NonNegative, Positive, Proper, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add, positive, zeros
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


class FedLambState(NamedTuple):
    """x and the second moment v."""

    x: PyTree
    v: PyTree


class Moments(NamedTuple):
    """A client's running means of its gradients and of their squares."""

    m: PyTree
    v: PyTree


@record
class FedLamb(Algorithm):
    """Fed-LAMB: local steps scaled layer by layer and entry by entry (Karimi et al., 2023, Algorithm 2).

    x <- mean_{i in S} y_i, where y_i is x after local steps that move each layer l of y, a leaf of the parameters, by

        -lr phi(|y_l|) p_l / |p_l|,   p = m_i / (sqrt(v) + epsilon) + weight_decay y,

    m_i <- beta1 m_i + (1 - beta1) g and v_i <- beta2 v_i + (1 - beta2) g^2, which the client keeps, and v <- max(v, mean v_i) at
    the server. All are 0 at first, and phi(a) = a, but 1 for a layer of zeros. The step does not depend on the length of p, so
    that m_i needs no correction in the first steps. The means are over the clients who answered.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        beta1: Decay of the first moments, in [0, 1).
        beta2: Decay of the second moments, in [0, 1).
        epsilon: Added to the root of the second moment, > 0.
        weight_decay: Weight of y in the direction, >= 0.
        steps: Local steps, or a list with one number for each client; 5 by default.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        schedule: Factor of lr in each round; the product is sent along.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedLamb(t.Nice(4), lr=0.05, steps=3), problem, rounds=5)
        >>> trace.ledger.totals()["vectors_up"]
        40
    """

    sampler: Sampler
    lr: Positive
    beta1: Proper = 0.9
    beta2: Proper = 0.999
    epsilon: Positive = 1e-8
    weight_decay: NonNegative = 0.0
    _: KW_ONLY
    steps: Steps = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None
    schedule: Schedule | None = None

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        return fit_steps(self, problem)

    def start(self, ask, x):
        return FedLambState(x, zeros(x))

    def client_state(self, x):
        return Moments(zeros(x), zeros(x))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, v = server
        replies = ask(self.sampler, self.train, (x, v, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        change, second = replies.mean()
        return if_any(replies, FedLambState(add(x, change), jax.tree.map(jnp.maximum, v, second)), server)

    @on_client
    def train(self, client, message):
        """y_i - x and v_i."""
        x, scale, lr = message
        lr = self.lr if lr is None else lr

        def move(y, m, scale):
            p = m / (jnp.sqrt(scale) + self.epsilon) + self.weight_decay * y
            return y - lr * positive(norm(y)) / positive(norm(p)) * p

        def step(rows, carry):
            y, (m, v) = carry
            gradient = rows.grad(y)
            m = jax.tree.map(lambda m, g: self.beta1 * m + (1 - self.beta1) * g, m, gradient)
            v = jax.tree.map(lambda v, g: self.beta2 * v + (1 - self.beta2) * g * g, v, gradient)
            return jax.tree.map(move, y, m, scale), Moments(m, v)

        (y, moments), steps = local_steps(client, step, (x, client.state), self.steps, self.batch, self.epochs)
        return Done((add(y, x, -1.0), moments.v), moments, steps)
