"""q-FedAvg: federated averaging that gives clients with larger losses more weight."""

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from turnout.client_solvers.base import fit_each, of_client
from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_sgd, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.local_methods import norm
from turnout.core.records import Count, NonNegative, Positive, record, static
from turnout.core.tree import add, positive
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler

LEAST = 1e-10
"""What is added to a loss before it is raised to the power q or q - 1, as in the paper's program."""


@record
class QFedAvg(Algorithm):
    """q-FedAvg: fair resource allocation by q-FFL (Li et al., 2020, Algorithm 2), for any sampler.

    It minimises f_q = sum_i lambda_i F_i^{q+1} / (q + 1), F_i = f_i - inf f_i. With g_i = (x - y_i) / lr, where y_i is x after
    local steps y <- y - lr grad f_i(y),

        x <- x - sum_{i in S} (lambda_i / p_i) F_i(x)^q g_i / sum_{i in S} (lambda_i / p_i) h_i,
        h_i = q F_i(x)^{q-1} |g_i|^2 + F_i(x)^q / lr.

    A larger q gives the clients more equal losses. With q = 0 it is `FedAvg`. With one step and all clients g_i = grad f_i(x), so
    that x goes along -grad f_q, and the fixed points are those of f_q; with more steps there is the drift of `FedAvg`. h_i is an
    upper curvature of F_i^{q+1} / (q + 1) at x if F_i is 1 / lr smooth, so that lr need not be tuned for each q. A reply has one
    more number, and takes one more query, for f_i(x).

    The paper draws clients with probabilities lambda_i, and leaves lambda_i out of the sums.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0; 1 / lr is the paper's L.
        q: How much large losses count, >= 0.
        steps: Local steps, or a list with one number for each client; 5 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        minimum: inf f_i, one number or [n]; 0 fits losses that cannot be negative.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.QFedAvg(t.Nice(4), lr=0.05, q=1.0, steps=3, minimum=-100.0), problem, rounds=5)
        >>> trace.ledger.totals()["queries_total"]
        80
    """

    sampler: Sampler
    lr: Positive
    q: NonNegative
    steps: Steps = None
    _: KW_ONLY
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None
    minimum: float | list[float] | Float[np.ndarray, " n"] = 0.0

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        return fit_each(fit_steps(self, problem), problem, "minimum")

    def round(self, ask, x):
        replies = ask(self.sampler, self.train, (x, round_lr(self.lr, self.schedule, ask.round)))
        ask.observe(replies)
        change, curvature = replies.average()
        return add(x, change, 1 / positive(curvature))

    @on_client
    def train(self, client, message):
        """F_i(x)^q (y_i - x) / lr, and h_i."""
        x, lr = message
        lr = jnp.asarray(self.lr if lr is None else lr)
        done = local_sgd(client, x, lr, self.steps, self.batch, self.epochs)
        loss = jnp.maximum(client.value(x) - of_client(self.minimum, client.id), 0) + LEAST
        power = loss**self.q
        curvature = self.q * loss ** (self.q - 1) * jnp.square(norm(done.reply) / lr) + power / lr
        change = jax.tree.map(lambda change: (power / lr).astype(change.dtype) * change, done.reply)
        return done._replace(reply=(change, curvature), queries=done.queries + 1)
