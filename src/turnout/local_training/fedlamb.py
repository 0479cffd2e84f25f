"""Fed-LAMB: local steps scaled layer by layer and entry by entry."""

from dataclasses import field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.local_methods import norm
from turnout.core.records import NonNegative, Positive, Proper, record
from turnout.core.tree import add, positive, zeros
from turnout.local_training.base import LocalTraining


class Moments(NamedTuple):
    """A client's running means of its gradients and of their squares."""

    first: PyTree
    second: PyTree


@record
class FedLamb(LocalTraining):
    """x <- mean_{i in S} y_i, y_i being x after local steps that move each layer l of y, a leaf of the parameters, by

        -lr phi(|y_l|) p_l / |p_l|,   p = m_i / (sqrt(v) + epsilon) + weight_decay y,

    m_i <- beta1 m_i + (1 - beta1) g and v_i <- beta2 v_i + (1 - beta2) g^2, which the client keeps, and v <- max(v, mean v_i) at
    the server; all are 0 at first, and phi(a) = a, 1 for a layer of zeros. Karimi et al. (2023, Algorithm 2, Fed-LAMB); the
    length of p has no say, so that m_i needs no correction in the first steps.
    """

    lr: Positive = field(kw_only=True)
    beta1: Proper = field(default=0.9, kw_only=True)
    beta2: Proper = field(default=0.999, kw_only=True)
    epsilon: Positive = field(default=1e-8, kw_only=True)
    weight_decay: NonNegative = field(default=0.0, kw_only=True)

    def local_state(self, x):
        return Moments(zeros(x), zeros(x))

    def begin(self, x):
        return zeros(x)

    def play(self, meeting, x, memory):
        change, second = meeting.mean(self.train, (x, memory))
        return add(x, change), jax.tree.map(jnp.maximum, memory, second)

    @on_client
    def train(self, client, message):
        """y_i - x and v_i."""
        (x, scale), moments, objective, factor = self.opened(client, message)
        lr = factor * self.lr

        def step(rows, carry):
            y, (m, v) = carry
            gradient = objective.grad(rows, y)
            m = jax.tree.map(lambda m, g: self.beta1 * m + (1 - self.beta1) * g, m, gradient)
            v = jax.tree.map(lambda v, g: self.beta2 * v + (1 - self.beta2) * g * g, v, gradient)
            return jax.tree.map(partial(self._layer, lr), y, m, scale), Moments(m, v)

        (y, moments), steps = self.work(client, step, (x, moments))
        return Done((add(y, x, -1.0), moments.second), self.closed(message, moments), steps)

    def _layer(self, lr, y, m, scale):
        """Return one layer after a step."""
        p = m / (jnp.sqrt(scale) + self.epsilon) + self.weight_decay * y
        return y - lr * positive(norm(y)) / positive(norm(p)) * p
