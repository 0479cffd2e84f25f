"""Ditto: federated averaging, beside which each client trains a model of its own that is drawn towards the server's."""

from dataclasses import KW_ONLY

import jax

from turnout.algorithms.fedavg import FedAvg
from turnout.client_solvers.local_sgd import local_sgd, local_steps
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Count, NonNegative, Positive, record
from turnout.core.tree import add

OWN = 2_000_081
"""Folded into a client's key for the batches of its own model."""


@record
class Ditto(FedAvg):
    """Ditto with federated averaging as its global solver (Li et al., 2021, Algorithm 1).

    x <- x + mean_{i in S} (y_i - x), exactly as in `FedAvg`, and for i in S also `own_steps` steps
    v_i <- v_i - own_lr (grad f_i(v_i) + lam (v_i - x)) at the x that was sent; v_i = x_0 at first.

    Each client uses its v_i, which stays there. For x near x*, v_i tends to argmin_v f_i(v) + (lam / 2) |v - x*|^2: with
    lam = 0 each client trains alone.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the y_i, > 0.
        steps: Local steps of y_i, or a list with one number for each client; 1 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step, those of v_i too; None for all rows.
        epochs: Passes of y_i over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        lam: Weight of the proximal term, >= 0.
        own_lr: Step size of the v_i, > 0.
        own_steps: Steps of v_i.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> algorithm = t.Ditto(t.Nice(4), lr=0.05, steps=3, lam=0.5, own_lr=0.05, own_steps=2)
        >>> trace = t.run(algorithm, problem, rounds=5)
        >>> trace.ledger.totals()["queries_total"], trace.ledger.totals()["vectors_up"]
        (100, 20)
    """

    _: KW_ONLY
    lam: NonNegative
    own_lr: Positive
    own_steps: Count = 5

    personalises = True

    def client_state(self, x):
        return x

    def own_model(self, x, state):
        return state

    @on_client
    def train(self, client, message):
        """y_i - x."""
        x, lr = message
        done = local_sgd(client, x, self.lr if lr is None else lr, self.steps, self.batch, self.epochs)

        def step(rows, v):
            direction = add(rows.grad(v), jax.tree.map(lambda v, x: self.lam * (v - x), v, x))
            return add(v, direction, -self.own_lr)

        own = client.with_key(jax.random.fold_in(client.key, OWN))
        v, queries = local_steps(own, step, client.state, self.own_steps, self.batch, None)
        return Done(done.reply, v, done.queries + queries)
