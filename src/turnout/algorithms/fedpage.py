"""FedPAGE: local steps along recursive gradient estimates, on the server's and on the clients' own."""

from dataclasses import field

import jax
from jaxtyping import PyTree

from turnout.algorithms.corrected_descent import corrected_descent
from turnout.algorithms.estimated import Estimated
from turnout.core.algorithm import on_client
from turnout.core.client import Client, Done
from turnout.core.records import Count, Positive, record, static
from turnout.core.tree import add
from turnout.estimators import Estimator, Sarah


@record
class FedPage(Estimated):
    """FedPAGE (Zhao, Li and Richtarik, 2021): PAGE on the server, and its recursion on the clients.

    x+ = x + server_lr mean_{i in S} (y_i - x), y_i being x after K = `steps` steps y <- y - lr u,
    u <- u + grad f_i(y+) - grad f_i(y) from u = g; then g <- g + sum_{i in S'} (lambda_i / p_i) (grad f_i(x+) - grad f_i(x)), or
    grad f(x+) with a probability, by a pass; g = grad f(x_0) at first.

    g is made by the `estimator`, by default `Sarah`, which is PAGE; S and S' are two cohorts. With K = 1 it is PAGE itself. With
    a `batch` both gradients of a local step are of the same random rows. The paper's rounds begin with g; here each round ends
    with it, and the iterates are the same. As for PAGE, x* is the fixed point.

    Args:
        sampler: Draws the cohorts.
        lr: Step size of the clients, > 0.
        steps: Number K of local steps.
        server_lr: Step size of the server, > 0.
        batch: Rows of a random batch in each local step; None for all rows.
        estimator: Makes g; any gradient estimator.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedPage(t.Nice(4), lr=0.02, steps=3), problem, rounds=10)
        >>> trace.ledger.totals()["exchanges"]
        21
    """

    lr: Positive
    steps: Count
    server_lr: Positive = field(default=1.0, kw_only=True)
    batch: Count | None = static(default=None, kw_only=True)
    estimator: Estimator = field(default=Sarah(), kw_only=True)

    def round(self, ask, server):
        x, estimate = server
        replies = ask(self.sampler, self.descend, (x, estimate.gradient))
        ask.observe(replies)
        new = add(x, replies.mean(), self.server_lr)
        return new, self.estimator.step(ask, self.sampler, new, x, estimate)

    @on_client
    def descend(self, client, message):
        """y_i - x."""
        x, g = message
        if self.batch is None:
            return Done(corrected_descent(client, x, client.grad(x), g, self.lr, self.steps), queries=self.steps)
        return Done(self._stochastic(client, x, g), queries=2 * (self.steps - 1))

    def _stochastic(self, client: Client, x: PyTree, g: PyTree) -> PyTree:
        """Return y - x after the steps with batches."""

        def step(carry):
            old, y, u, k = carry
            rows = client.batch(jax.random.fold_in(client.key, k), self.batch)
            u = jax.tree.map(lambda u, new, old: u + new - old, u, rows.grad(y), rows.grad(old))
            return y, add(y, u, -self.lr), u, k + 1

        return add(client.loop(self.steps - 1, step, (x, add(x, g, -self.lr), g, 0))[1], x, -1.0)
