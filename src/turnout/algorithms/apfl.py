"""APFL: each client uses a mixture of a model of its own and the one that all train together."""

from dataclasses import KW_ONLY

import jax

from turnout.algorithms.fedavg import FedAvg
from turnout.client_solvers.local_sgd import local_steps
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Share, record
from turnout.core.tree import add


@record
class Apfl(FedAvg):
    """APFL: adaptive personalised federated learning with a fixed mixture (Deng et al., 2020, Algorithm 1).

    x <- x + mean_{i in S} (w_i - x), exactly as in `FedAvg`: w_i is x after local steps w <- w - lr grad f_i(w). In each of
    these steps also v_i <- v_i - lr alpha grad f_i(alpha v_i + (1 - alpha) w), with w as before the step and on the same rows.

    A client uses alpha v_i + (1 - alpha) x with the last x of the server, since Algorithm 1 sets w_i = x wherever it
    communicates; v_i = x_0 at first, and stays at the client. alpha is the same in all rounds, not adapted to the client.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 1 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        alpha: Share of the client's own model in the mixture, in [0, 1].

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Apfl(t.Nice(4), lr=0.05, steps=3, alpha=0.5), problem, rounds=5)
        >>> trace.ledger.totals()["queries_total"], trace.ledger.totals()["vectors_up"]
        (120, 20)
    """

    _: KW_ONLY
    alpha: Share

    personalises = True

    def client_state(self, x):
        return x

    def own_model(self, x, state):
        return self._mixture(state, x)

    @on_client
    def train(self, client, message):
        """w_i - x."""
        x, lr = message
        lr = self.lr if lr is None else lr

        def step(rows, carry):
            w, v = carry
            own = rows.grad(self._mixture(v, w))
            return rows.step(w, -lr), add(v, own, -lr * self.alpha)

        (w, v), steps = local_steps(client, step, (x, client.state), self.steps, self.batch, self.epochs)
        return Done(add(w, x, -1.0), v, 2 * steps)

    def _mixture(self, v, w):
        return jax.tree.map(lambda v, w: self.alpha * v + (1 - self.alpha) * w, v, w)
