"""FedMuon: local steps of Muon whose momentum is corrected by control variates before it is orthogonalised."""

from dataclasses import KW_ONLY
from typing import NamedTuple

from jaxtyping import PyTree

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_steps, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.tree import add, mixture, zeros
from turnout.optimisers.lmo import lmo
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


class FedMuonState(NamedTuple):
    """x, and `variate` = C = sum_i lambda_i C_i."""

    x: PyTree
    variate: PyTree


@record
class FedMuon(Algorithm):
    """FedMuon: Muon in local steps with a correction of its bias (Takezawa et al., 2025, Algorithm 1).

    x <- x + sum_{i in S} lambda_i (y_i - x), where y_i is x after local steps M <- (1 - alpha) M + alpha grad f_i(y),
    y <- y + lr lmo(M - C_i + C), M = C_i at first; then C_i <- M for i in S. C_i = 0 before the first round.

    For a matrix G = U S V^T, lmo(G) = -U V^T up to Newton-Schulz steps, and for any other leaf lmo(g) = -g / |g|. A mean of such
    steps is not the step of a mean: where clients differ, `FedOpt` or `DiLoCo` with `Muon` stop where the directions of the
    clients cancel out (Theorem 1 of the paper). The corrected momentum is about the gradient of all clients, so that they step
    alike. Without lmo and with alpha = 1 it is `Scaffold`.

    Each step has the length lr whatever the gradients are: x* is approached as lr falls by a `schedule`. The paper has
    lambda_i = 1 / n: clients that are not drawn count as if they had stayed at x.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 5 by default.
        alpha: Weight of the new gradient in the momentum, in (0, 1].
        iterations: Newton-Schulz steps of each lmo.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedMuon(t.Nice(4), lr=0.05, schedule=t.schedules.Inverse(10.0)), problem, rounds=5)
        >>> trace.ledger.totals()["vectors_up"]
        40
    """

    sampler: Sampler
    lr: Positive
    steps: Steps = None
    _: KW_ONLY
    alpha: Fraction = 0.1
    iterations: Count = 5
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        return fit_steps(self, problem)

    def start(self, ask, x):
        return FedMuonState(x, zeros(x))

    def client_state(self, x):
        return zeros(x)

    def output(self, server):
        return server.x

    def round(self, ask, server):
        replies = ask(self.sampler, self.train, (*server, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        change, variate_change = replies.total()
        return FedMuonState(add(server.x, change), add(server.variate, variate_change))

    @on_client
    def train(self, client, message):
        """y_i - x and the change of C_i."""
        x, c, lr = message
        lr, correction = self.lr if lr is None else lr, add(c, client.state, -1.0)

        def step(rows, carry):
            y, m = carry
            m = mixture(self.alpha, rows.grad(y), m)
            return add(y, lmo(add(m, correction), self.iterations), lr), m

        (y, m), steps = local_steps(client, step, (x, client.state), self.steps, self.batch, self.epochs)
        return Done((add(y, x, -1.0), add(m, client.state, -1.0)), m, steps)
