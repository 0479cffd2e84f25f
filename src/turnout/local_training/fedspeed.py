"""FedSpeed: local steps with a prox-correction and perturbed gradients."""

from dataclasses import field

import jax
import jax.numpy as jnp

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.local_methods import norm
from turnout.core.records import NonNegative, Positive, Share, record
from turnout.core.tree import add, positive, zeros
from turnout.local_training.base import LocalTraining, moved
from turnout.optimisers import Optimiser


@record
class FedSpeed(LocalTraining):
    """x <- mean_{i in S} (y_i - gamma h_i), y_i being x after local steps of `optimiser` with the gradients

        (1 - alpha) g + alpha grad f_i(y + radius g / |g|) - h_i + (y - x) / gamma,   g = grad f_i(y),

    and then h_i <- h_i - (y_i - x) / gamma, which the client keeps, 0 at first. Sun et al. (2023, Algorithm 1, with their `Sgd`,
    lambda = gamma), the perturbation having a fixed length as in their experiments. A local step needs two queries.
    """

    optimiser: Optimiser = field(kw_only=True)
    gamma: Positive = field(kw_only=True)
    radius: NonNegative = field(default=0.1, kw_only=True)
    alpha: Share = field(default=1.0, kw_only=True)

    def fitted(self, problem):
        self.optimiser.check(problem)
        return super().fitted(problem)

    def local_state(self, x):
        return zeros(x)

    def play(self, meeting, x, memory):
        return add(x, meeting.mean(self.train, x)), memory

    @on_client
    def train(self, client, message):
        """y_i - gamma h_i - x."""
        x, variate, objective, factor = self.opened(client, message)
        optimiser = self.optimiser.with_lr_factor(factor)

        def step(rows, carry):
            y = carry[0]
            gradient = objective.grad(rows, y)
            far = jnp.asarray(self.radius / positive(norm(gradient)))
            ahead = objective.grad(rows, jax.tree.map(lambda y, g: y + far.astype(g.dtype) * g, y, gradient))
            corrected = jax.tree.map(
                lambda g, a, h, y, x: (1 - self.alpha) * g + self.alpha * a - h + (y - x) / self.gamma,
                *(gradient, ahead, variate, y, x),
            )
            pulled = objective._replace(centre=x, pull=objective.pull + 1 / self.gamma)
            return moved(optimiser, client, pulled, corrected, carry, rows)

        (y, _), steps = self.work(client, step, (x, optimiser.start(x)))
        change = add(y, x, -1.0)
        variate = jax.tree.map(lambda h, change: h - change / self.gamma, variate, change)
        reply = jax.tree.map(lambda change, h: change - self.gamma * h, change, variate)
        return Done(reply, self.closed(message, variate), (1 + optimiser.queries) * steps)
