"""FedSpeed: local steps with a prox-correction and perturbed gradients."""

from dataclasses import KW_ONLY

import jax

from turnout.algorithms.fedsam import uphill
from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_steps, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, NonNegative, Positive, Share, record, static
from turnout.core.tree import add, zeros
from turnout.optimisers import Optimiser
from turnout.optimisers.base import hessian_probe
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


@record
class FedSpeed(Algorithm):
    """FedSpeed: prox-corrected local steps with perturbed gradients (Sun et al., 2023, Algorithm 1).

    x <- mean_{i in S} (y_i - gamma h_i), where y_i is x after local steps of `optimiser` with the gradients

        (1 - alpha) g + alpha grad f_i(y + radius g / |g|) - h_i + (y - x) / gamma,   g = grad f_i(y),

    and then h_i <- h_i - (y_i - x) / gamma, which the client keeps, 0 at first. The paper has the optimiser `Sgd` and writes
    lambda for gamma. The perturbation has a fixed length, as in the paper's experiments. A local step needs two queries. The mean
    is over the clients who answered.

    Args:
        sampler: Who takes part in each round.
        optimiser: Optimiser of the clients.
        gamma: Inverse weight of the proximal term, > 0.
        radius: Length of the perturbation, >= 0.
        alpha: Weight of the perturbed gradient, in [0, 1].
        steps: Local steps, or a list with one number for each client; 5 by default.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        schedule: Factor of the clients' lr in each round, which is sent along.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedSpeed(t.Nice(4), t.optimisers.Sgd(0.05), gamma=0.5, steps=3), problem, rounds=5)
        >>> trace.ledger.totals()["queries_total"]
        120
    """

    sampler: Sampler
    optimiser: Optimiser
    gamma: Positive
    radius: NonNegative = 0.1
    alpha: Share = 1.0
    _: KW_ONLY
    steps: Steps = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None
    schedule: Schedule | None = None

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        self.optimiser.check(problem)
        return fit_steps(self, problem)

    def client_state(self, x):
        return zeros(x)

    def round(self, ask, x):
        replies = ask(self.sampler, self.train, (x, round_lr(1.0, self.schedule, ask.round)))
        ask.observe(replies)
        return add(x, replies.mean())

    @on_client
    def train(self, client, message):
        """y_i - gamma h_i - x."""
        x, factor = message
        h, optimiser = client.state, self.optimiser if factor is None else self.optimiser.with_lr_factor(factor)

        def step(rows, carry):
            y, state = carry
            gradient = rows.grad(y)
            ahead = uphill(rows, y, gradient, self.radius)
            corrected = jax.tree.map(
                lambda g, a, h, y, x: (1 - self.alpha) * g + self.alpha * a - h + (y - x) / self.gamma,
                *(gradient, ahead, h, y, x),
            )
            hvp = lambda v: jax.tree.map(lambda hv, v: hv + 1 / self.gamma * v, rows.hvp(y, v), v)  # noqa: E731
            return optimiser.step(y, corrected, state, hessian_probe(hvp, y, client.key))

        (y, _), steps = local_steps(client, step, (x, optimiser.start(x)), self.steps, self.batch, self.epochs)
        change = add(y, x, -1.0)
        h = jax.tree.map(lambda h, change: h - change / self.gamma, h, change)
        return Done(jax.tree.map(lambda change, h: change - self.gamma * h, change, h), h, (1 + optimiser.queries) * steps)
