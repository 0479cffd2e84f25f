"""SARAH and STORM: recursive estimators without a memory of earlier points."""

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
    """SARAH with cohorts and random restarts (Nguyen et al., 2017; PAGE, Li et al., 2021).

    g^{t+1} = g^t + sum_{i in S} (lambda_i / p_i) (grad f_i(x^{t+1}) - grad f_i(x^t)), or grad f(x^{t+1}) by a full pass.

    g^0 is made by a full pass. Two vectors down, one up.

    Args:
        probability: Probability of a full pass in a round; None means m / n. 0 is the recursion alone, the "RG" of Cost-aware
            client selection, section 5, with beta = 0.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Icgm(t.Nice(2), t.Sarah(probability=0.0), lam=5.0), problem, rounds=10)
        >>> trace.ledger.totals()["draws_random"]
        10
    """

    probability: Share | None = None

    cohort_defaults = {"probability": 1.0}

    def step(self, ask, sampler, new, old, estimate):
        def restart(estimate):
            return self.full(ask, new, estimate)

        def recur(estimate):
            replies = ask(sampler, self.difference, (new, old))
            ask.observe(replies)
            return Estimate(add(estimate.gradient, replies.average()))

        return ask.cond(coin(ask, self.probability), restart, recur, estimate)


@record
class Storm(Estimator):
    """STORM with cohorts (Cutkosky and Orabona, 2019).

    g^{t+1} = sum_{i in S} (lambda_i / p_i) grad f_i(x^{t+1}) + (1 - beta) (g^t - sum_{i in S} (lambda_i / p_i) grad f_i(x^t)).

    g^0 is made by a cohort. Two vectors down, one up. It is the "RG" of Cost-aware client selection, section 5, with the
    gradients of S at x^{t+1} in the place of G^t and 1 - beta times its differences. While x does not move, its variance falls to
    beta / (2 - beta) times that of a cohort's gradient, and no lower.

    Args:
        beta: Weight of the new gradients, in (0, 1]; None means m / n.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.CeLgd(t.Nice(2), lr=0.02, steps=3, estimator=t.Storm(beta=0.5)), problem, rounds=10)
        >>> trace.ledger.totals()["vectors_down"]
        62
    """

    beta: Fraction | None = None

    cohort_defaults = {"beta": 1.0}

    def start(self, ask, sampler, x):
        replies = ask(sampler, self.gradient, x)
        ask.observe(replies)
        return Estimate(replies.average())

    def step(self, ask, sampler, new, old, estimate):
        replies = ask(sampler, self.discounted, (new, old))
        ask.observe(replies)
        g = add(replies.average(), estimate.gradient, 1 - jnp.asarray(self.beta))
        return Estimate(if_any(replies, g, estimate.gradient))

    @on_client
    def discounted(self, client, message):
        """grad f_i(x^{t+1}) - (1 - beta) grad f_i(x^t)."""
        new, old = message
        oracle = self.oracle(client)
        return Done(add(oracle.grad(new), oracle.grad(old), jnp.asarray(self.beta) - 1), queries=2)
