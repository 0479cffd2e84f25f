"""FedLin: corrected local steps whose size is divided by their number."""

from dataclasses import KW_ONLY, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from turnout.algorithms.corrected_descent import corrected_descent
from turnout.algorithms.mimemvr import ClientGradient
from turnout.client_solvers.local_sgd import fit_steps, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


@record
class FedLin(Algorithm):
    """FedLin: local steps along corrected gradients, of size lr / E_i (Mitra et al., 2021, Algorithm 1), for any sampler.

    g = sum_{i in S} (lambda_i / p_i) grad f_i(x), then x <- mean_{i in S} y_i, where y_i is x after E_i steps
    y <- y - (lr / E_i) (grad f_i(y) - grad f_i(x) + g).

    A round is two exchanges, the second one with the clients that answered the first, and E_i queries. In the paper all clients
    take part; then x* is the fixed point whatever the E_i. With one E and the step size lr / E it is `MimeMvr`. The paper's
    sparse gradients are those of a codec (`Exchange`).

    For convex, L-smooth f_i, mu-strongly convex f, all clients and lr <= 2 / L, f(x) - f(x*) falls in a round at least by the
    factor 1 - 2 lr mu (1 - s - s (1 + s)^2), s = lr L / 2: gradient steps of f_i expand no distance, so that
    |y - x| <= lr |grad f(x)|, of which the mean over the steps is at most a half, and the step of x differs from -lr grad f(x)
    by at most lr s |grad f(x)|. The paper's theorem has other constants.

    Args:
        sampler: Draws the cohort S of each round.
        lr: Step size of a whole round, > 0.
        steps: Local steps E_i, or a list with one number for each client.
        schedule: Factor of lr in each round; the product is sent along.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedLin(t.Full(), lr=0.1, steps=[1, 2, 3, 4, 4, 3, 2, 1]), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"], trace.ledger.totals()["queries_total"]
        (10, 100)
    """

    sampler: Sampler
    lr: Positive
    steps: Count | list[Count] | Int[np.ndarray, " n"] = 5
    _: KW_ONLY
    schedule: Schedule | None = None

    cohorts_per_round = None

    def bind(self, problem):
        return fit_steps(self, problem)

    def client_state(self, x):
        return ClientGradient(x, zeros(x))

    def round(self, ask, x):
        replies = ask(self.sampler, self.look, x)
        ask.observe(replies)
        again = replace(replies.cohort, active=replies.answered)
        change = ask(again, self.descend, (replies.average(), round_lr(self.lr, self.schedule, ask.round))).mean()
        return if_any(replies, add(x, change), x)

    @on_client
    def look(self, client, x):
        """grad f_i(x)."""
        gradient = client.grad(x)
        return Done(gradient, ClientGradient(x, gradient))

    @on_client
    def descend(self, client, message):
        """y_i - x."""
        g, lr = message
        steps: Any = self.steps if jnp.ndim(self.steps) == 0 else jnp.asarray(self.steps)[client.id]
        size = (self.lr if lr is None else lr) / jnp.asarray(steps, jnp.result_type(float))
        return Done(corrected_descent(client, *client.state, g, size, steps), queries=steps - 1)
