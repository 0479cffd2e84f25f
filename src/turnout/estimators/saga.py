"""Estimators whose clients keep the last gradient that they sent."""

from typing import Annotated

from annotated_types import Ge, Le
from jaxtyping import PyTree

from turnout.core.algorithm import Ask, on_client
from turnout.core.client import Done
from turnout.core.records import record, static
from turnout.core.tree import add, zeros
from turnout.estimators.base import Estimate, Estimator
from turnout.samplers import Sampler

Passes = Annotated[int, Ge(0), Le(2)]


@record
class Saga(Estimator):
    """g^t = b + sum_{i in S} (lambda_i / p_i) (grad f_i(x^t) - b_i), then b_i <- grad f_i(x^t) for i in S.

    SAGA (Defazio et al., 2014) with cohorts, as in cost-aware client selection, section 4.1: client i keeps b_i, 0 at first, and
    the server b = sum_i lambda_i b_i. x^t goes down, the change of b_i comes up. The estimate is unbiased whatever the b_i.
    `passes` is how many of the first points x^0, x^1 everyone is asked for, 0, 1 or 2; at the others a cohort is.
    """

    passes: Passes = static(default=2)

    def client_state(self, x):
        return zeros(x)

    def start(self, ask, reach, x):
        return self.renewed(ask, reach.everyone if self.passes else reach.random, x, zeros(x))

    def step(self, ask, reach, new, old, estimate):
        def by(who: Sampler):
            return lambda b: self.renewed(ask, who, new, b)

        if self.passes < 2:
            return by(reach.random)(estimate.memory)
        return ask.cond(ask.round == 1, by(reach.everyone), by(reach.random), estimate.memory)

    def renewed(self, ask: Ask, who: Sampler, x: PyTree, b: PyTree) -> Estimate:
        """Return the estimate at x and the new b, those that `who` draws having renewed their b_i."""
        replies = ask(who, self.renew, x)
        ask.observe(replies)
        return Estimate(add(b, replies.average()), add(b, replies.total()))

    @on_client
    def renew(self, client, x):
        """The change of b_i."""
        gradient = self.oracle(client).grad(x)
        return Done(add(gradient, client.state.memory, -1.0), client.state._replace(memory=gradient))


@record
class Sag(Saga):
    """g^t = b once b_i <- grad f_i(x^t) for i in S: biased, with less variance than `Saga`, for the same messages.

    SAG (Schmidt et al., 2017) with cohorts; its error is not bounded by how much clients differ (cost-aware client selection,
    appendix D).
    """

    def renewed(self, ask, who, x, b):
        b = super().renewed(ask, who, x, b).memory
        return Estimate(b, b)
