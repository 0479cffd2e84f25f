"""AFL: agnostic federated learning, the least loss under the worst weights of the clients."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record, static
from turnout.core.tree import add, positive
from turnout.samplers import Sampler


class AgnosticFlState(NamedTuple):
    """x, the `mean` of all x so far, and the `weights` of the clients [n]."""

    x: PyTree
    mean: PyTree
    weights: Float[Array, " n"]


@record
class AgnosticFl(Algorithm):
    """AFL: agnostic federated learning (Mohri, Sivek and Suresh, 2019, Algorithm 1, Stochastic-AFL), for any sampler.

    For min_x max_w L(x, w), L(x, w) = sum_i w_i f_i(x), with w in the simplex, w_i = 1 / n at first:

        x <- x - lr sum_{i in S} (w_i / p_i) grad f_i(x),
        w <- projection onto the simplex of w + weights_lr v, v_i = f_i(x) / p_i for i in S and 0 else,

    both from the old x and w. The output is the mean of x_0, ..., x_{t-1}, as in the paper, whose program takes the last x. The
    objective is max_i f_i at the worst, so the lambda_i have no part in it. A reply has one more number, f_i(x).

    In full participation, if all f_i are convex, then for all x, with the gradients g_k and the losses v_k of round k and
    the mean w of w_0, ..., w_{t-1}, max_i f_i(mean x) - L(x, mean w) is at most 1 / t times

        |x_0 - x|^2 / (2 lr) + lr / 2 sum_k |g_k|^2 + |w_0 - e|^2 / (2 weights_lr) + weights_lr / 2 sum_k |v_k|^2

    for e the unit vector of the largest f_i(mean x). So the mean comes to a minimiser of max_i f_i as 1 / sqrt(t), with steps of
    that order.

    Args:
        sampler: Who takes part in each round.
        lr: Step size of x, > 0.
        weights_lr: Step size of the weights, > 0.
        clients: The number of clients, which `bind` sets.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.AgnosticFl(t.Nice(4), lr=0.05, weights_lr=0.01), problem, rounds=5)
        >>> trace.ledger.totals()["queries_total"]
        20
    """

    sampler: Sampler
    lr: Positive
    weights_lr: Positive
    clients: Count | None = static(default=None, repr=False, kw_only=True)

    def bind(self, problem):
        return replace(self, clients=problem.clients)

    def start(self, ask, x):
        ones = jnp.ones(self.clients)
        return AgnosticFlState(x, x, ones / ones.size)

    def output(self, server):
        return server.mean

    def round(self, ask, server):
        x, mean, weights = server
        replies = ask(self.sampler, self.look, x)
        cohort = replies.cohort
        # Sums have the weights lambda_i / p_i, and w_i takes the place of lambda_i.
        relative = replies.scaled(weights[cohort.ids] / positive(cohort.share))
        ask.observe(relative)
        gradient, _ = relative.average()
        answered = jnp.where(replies.answered, cohort.ids, self.clients)
        losses = jnp.zeros_like(weights).at[answered].set(cohort.expansion * replies.values[1], mode="drop")
        mean = jax.tree.map(lambda mean, x: mean + (x - mean) / jnp.asarray(ask.round, x.dtype), mean, x)
        return AgnosticFlState(add(x, gradient, -self.lr), mean, onto_simplex(weights + self.weights_lr * losses))

    @on_client
    def look(self, client, x):
        """grad f_i(x), and f_i(x)."""
        value, gradient = client.value_and_grad(x)
        return Done((gradient, value))


def onto_simplex(point: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return the nearest w >= 0 with the sum 1, which is max {point - c, 0} for some number c.

    Args:
        point: The point.
    """
    falling = -jnp.sort(-point)
    levels = (jnp.cumsum(falling) - 1) / jnp.arange(1, point.size + 1, dtype=point.dtype)
    # c is the mean excess of the largest entries, as many as are above it.
    return jnp.maximum(point - levels[jnp.sum(falling > levels) - 1], 0)
