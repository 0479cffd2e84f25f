"""Fed-Sophia: local steps along a mean of gradients over curvatures, entry by entry, and clipped."""

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.algorithms.fedavg import FedAvg
from turnout.algorithms.learned_hessian import check_second_derivatives
from turnout.client_solvers.local_sgd import check_local_work, local_steps
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Count, NonNegative, Positive, Proper, record
from turnout.core.tree import add, zeros
from turnout.optimisers.base import hessian_probe


class GradientAndCurvature(NamedTuple):
    """A client's running means of its gradients, m_i, and of the diagonal of its Hessian, h_i."""

    m: PyTree
    h: PyTree


@record
class FedSophia(FedAvg):
    """Fed-Sophia (Elbakary, Ben Issaid, Shehab, Seddik, ElBatt and Bennis, 2024, Algorithm 1), for any sampler.

    x <- mean_{i in S} y_i, where y_i is x after local steps of Sophia

        y <- y - lr (weight_decay y + clip(m_i / max(h_i, epsilon), rho)),   m_i <- beta1 m_i + (1 - beta1) grad f_i(y),

    entry by entry, clip(a, rho) being a within [-rho, rho]. In every `every`-th local step of a round, the first one included,
    h_i <- beta2 h_i + (1 - beta2) z * (grad^2 f_i(y) z) with new random signs z, for one more query. Clients keep m_i and h_i,
    which are 0 at first. A vector goes each way.

    z * (H z) is Hutchinson's estimate of the diagonal of the Hessian, the second of Sophia's (Liu et al., 2024). The paper takes
    that of Gauss, Newton and Bartlett, which needs labels drawn from the model; for logistic regression both are of one matrix.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 5 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        every: Local steps from one look at the curvature to the next, the paper's tau.
        beta1: Decay of the mean of gradients, in [0, 1).
        beta2: Decay of the mean of curvatures, in [0, 1).
        rho: Largest entry of a direction, > 0.
        epsilon: Least curvature, > 0.
        weight_decay: Weight of y in the direction, >= 0.

    Raises:
        UserError: Where the problem has no second derivatives.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedSophia(t.Nice(4), lr=0.1, steps=3, every=2), problem, rounds=5)
        >>> trace.ledger.totals()["queries_total"]  # 5 rounds, 4 clients, 3 gradients and 2 looks at the curvature
        100
    """

    _: KW_ONLY
    every: Count = 10
    beta1: Proper = 0.965
    beta2: Proper = 0.99
    rho: Positive = 0.04
    epsilon: Positive = 1e-12
    weight_decay: NonNegative = 0.0

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        check_second_derivatives(self, problem)
        return super().bind(problem)

    def client_state(self, x):
        return GradientAndCurvature(zeros(x), zeros(x))

    @on_client
    def train(self, client, message):
        """y_i - x."""
        x, lr = message
        lr, every = self.lr if lr is None else lr, jnp.asarray(self.every, "int32")

        def move(y, m, h):
            direction = jnp.clip(m / jnp.maximum(h, self.epsilon), -self.rho, self.rho)
            return y - lr * (self.weight_decay * y + direction)

        def step(rows, carry):
            y, (m, h), number = carry

            def look(h):
                probe = hessian_probe(lambda z: rows.hvp(y, z), y, client.key)
                return jax.tree.map(lambda h, new: self.beta2 * h + (1 - self.beta2) * new, h, probe(number))

            h = client.cond(number % every == 0, look, lambda h: h, h)
            m = jax.tree.map(lambda m, g: self.beta1 * m + (1 - self.beta1) * g, m, rows.grad(y))
            return jax.tree.map(move, y, m, h), GradientAndCurvature(m, h), number + 1

        start = x, client.state, jnp.zeros((), "int32")
        (y, means, _), steps = local_steps(client, step, start, self.steps, self.batch, self.epochs)
        steps = jnp.asarray(steps, "int32")
        return Done(add(y, x, -1.0), means, steps + (steps + every - 1) // every)
