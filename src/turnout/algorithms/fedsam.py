"""FedSAM: local steps along gradients taken a little uphill, which look for flat minima."""

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_sgd, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Client
from turnout.core.local_methods import norm
from turnout.core.records import Count, NonNegative, Positive, record, static
from turnout.core.tree import add, positive
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


@record
class FedSam(Algorithm):
    """FedSAM: sharpness-aware local steps (Qu et al., 2022, Algorithm 1; Caldarola et al., 2022).

    x <- x + mean_{i in S} (y_i - x), where y_i is x after local steps y <- y - lr grad f_i(y + radius g / |g|), g = grad f_i(y).

    The gradient uphill is that of f_i(y) + radius |grad f_i(y)| to first order in the radius, and exactly for quadratics. With
    radius = 0 it is `FedAvg`. Both gradients of a step are on its rows, so that a local step needs two queries. The mean is over
    the clients who answered, weighted by lambda_i. `FedSpeed` takes the same gradients with a correction of the drift.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        radius: How far uphill, >= 0; the papers' rho.
        steps: Local steps, or a list with one number for each client; 5 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedSam(t.Nice(4), lr=0.05, radius=0.1, steps=3), problem, rounds=5)
        >>> trace.ledger.totals()["queries_total"]
        120
    """

    sampler: Sampler
    lr: Positive
    radius: NonNegative = 0.1
    steps: Steps = None
    _: KW_ONLY
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        return fit_steps(self, problem)

    def round(self, ask, x):
        replies = ask(self.sampler, self.train, (x, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        return add(x, replies.mean())

    @on_client
    def train(self, client, message):
        """y_i - x."""
        x, lr = message
        direction = lambda rows, y: uphill(rows, y, rows.grad(y), self.radius)  # noqa: E731
        done = local_sgd(client, x, self.lr if lr is None else lr, self.steps, self.batch, self.epochs, direction)
        return done._replace(queries=2 * done.queries)


def uphill(client: Client, y: PyTree, gradient: PyTree, radius) -> PyTree:
    """Return grad f_i(y + radius g / |g|).

    Args:
        client: The client, on the rows of a step.
        y: Parameters.
        gradient: g = grad f_i(y).
        radius: How far uphill.
    """
    length = jnp.asarray(radius / positive(norm(gradient)))
    return client.grad(jax.tree.map(lambda y, g: y + length.astype(g.dtype) * g, y, gradient))
