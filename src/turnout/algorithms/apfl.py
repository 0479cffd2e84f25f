"""APFL: each client uses a mixture of a model of its own and the one that all train together."""

from dataclasses import KW_ONLY
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.fedavg import FedAvg
from turnout.client_solvers.local_sgd import local_steps
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Positive, Share, record
from turnout.core.tree import add, mixture


class OwnPart(NamedTuple):
    """A client's model v_i, and its share alpha_i in the mixture."""

    v: PyTree
    alpha: Float[Array, ""]


@record
class Apfl(FedAvg):
    """APFL: adaptive personalised federated learning (Deng et al., 2020, Algorithm 1).

    x <- x + mean_{i in S} (w_i - x), exactly as in `FedAvg`: w_i is x after local steps w <- w - lr grad f_i(w). In each of
    these steps also v_i <- v_i - lr alpha grad f_i(alpha v_i + (1 - alpha) w), with w as before the step and on the same rows.

    A client uses alpha v_i + (1 - alpha) x with the last x of the server, since Algorithm 1 sets w_i = x wherever it
    communicates; v_i = x_0 at first, and stays at the client.

    With `alpha_lr` each client has an alpha_i of its own, alpha at first. In the first local step of each round also
    alpha_i <- alpha_i - alpha_lr <grad f_i(alpha_i v_i + (1 - alpha_i) x), v_i - x>, clipped to [0, 1] (equation (10)), with the
    gradient of that step of v_i, which still has the old alpha_i; the further steps have the new one.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of the clients, > 0.
        steps: Local steps, or a list with one number for each client; 1 by default.
        schedule: Factor of lr in each round; the product is sent along.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        alpha: Share of the client's own model in the mixture, in [0, 1].
        alpha_lr: Step size of the alpha_i, > 0; None for one alpha, which stays.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Apfl(t.Nice(4), lr=0.05, steps=3, alpha=0.5), problem, rounds=5)
        >>> trace.ledger.totals()["queries_total"], trace.ledger.totals()["vectors_up"]
        (120, 20)
    """

    _: KW_ONLY
    alpha: Share
    alpha_lr: Positive | None = None

    personalises = True

    def client_state(self, x):
        return x if self.alpha_lr is None else OwnPart(x, jnp.asarray(self.alpha, jnp.result_type(float)))

    def own_model(self, x, state):
        v, alpha = self._own(state)
        return mixture(alpha, v, x)

    @on_client
    def train(self, client, message):
        """w_i - x."""
        x, lr = message
        lr: Any = self.lr if lr is None else lr

        def step(rows, carry):
            w, v, alpha, alpha_lr = carry
            own, new = rows.grad(mixture(alpha, v, w)), alpha
            if alpha_lr is not None:
                slope = sum(jax.tree.leaves(jax.tree.map(lambda g, v, w: jnp.vdot(g, v - w), own, v, w)))
                # The step size is 0 after the first step.
                new, alpha_lr = jnp.clip(alpha - alpha_lr * slope, 0, 1), 0 * alpha_lr
            return rows.step(w, -lr), add(v, own, -lr * alpha), new, alpha_lr

        first = (x, *self._own(client.state), self.alpha_lr)
        (w, v, alpha, _), steps = local_steps(client, step, first, self.steps, self.batch, self.epochs)
        return Done(add(w, x, -1.0), v if self.alpha_lr is None else OwnPart(v, alpha), 2 * steps)

    def _own(self, state) -> OwnPart:
        return OwnPart(state, self.alpha) if self.alpha_lr is None else state
