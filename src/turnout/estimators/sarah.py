"""Recursive estimators without a memory of other points."""

import jax.numpy as jnp

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Fraction, Share, record
from turnout.core.replies import if_any
from turnout.core.tree import add
from turnout.estimators.base import Estimate, Estimator, coin
from turnout.estimators.exact import Exact


@record
class Sarah(Exact):
    """g^{t+1} = g^t + sum_{i in S} (lambda_i / p_i) (grad f_i(x^{t+1}) - grad f_i(x^t)), or grad f(x^{t+1}) by a full pass.

    SARAH (Nguyen et al., 2017) with cohorts, begun by a full pass and, for its loops, begun anew with `probability` (PAGE, Li et
    al., 2021), m / n unless given; 0 is the recursion alone, which is the "RG" of cost-aware client selection, section 5, with
    beta = 0. Two vectors down, one up.
    """

    probability: Share | None = None

    usual = {"probability": 1.0}

    def step(self, ask, reach, new, old, estimate):
        def anew(estimate):
            return self.full(ask, reach, new, estimate)

        def go_on(estimate):
            replies = ask(reach.random, self.difference, (new, old))
            ask.observe(replies)
            return Estimate(add(estimate.gradient, replies.average()))

        return ask.cond(coin(ask, self.probability), anew, go_on, estimate)


@record
class Storm(Estimator):
    """g^{t+1} = sum_{i in S} (lambda_i / p_i) grad f_i(x^{t+1}) + (1 - beta) (g^t - sum_{i in S} (lambda_i / p_i) grad f_i(x^t)).

    STORM (Cutkosky and Orabona, 2019), begun with a cohort; beta is m / n unless given. It is the "RG" of cost-aware client
    selection, section 5, with the gradients of S at x^{t+1} in the place of G^t and 1 - beta times its differences. Two vectors
    down, one up. Where x stands still, its variance falls to beta / (2 - beta) times that of a cohort's gradient, and no lower.
    """

    beta: Fraction | None = None

    usual = {"beta": 1.0}

    def start(self, ask, reach, x):
        replies = ask(reach.random, self.gradient, x)
        ask.observe(replies)
        return Estimate(replies.average())

    def step(self, ask, reach, new, old, estimate):
        replies = ask(reach.random, self.discounted, (new, old))
        ask.observe(replies)
        g = add(replies.average(), estimate.gradient, 1 - jnp.asarray(self.beta))
        return Estimate(if_any(replies, g, estimate.gradient))

    @on_client
    def discounted(self, client, message):
        """grad f_i(x^{t+1}) - (1 - beta) grad f_i(x^t)."""
        new, old = message
        oracle = self.oracle(client)
        return Done(add(oracle.grad(new), oracle.grad(old), jnp.asarray(self.beta) - 1), queries=2)
