"""SAGA and SAG: clients keep the last gradient that they sent."""

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
    """SAGA with cohorts (Defazio et al., 2014; Cost-aware client selection, section 4.1).

    g^t = b + sum_{i in S} (lambda_i / p_i) (grad f_i(x^t) - b_i), then b_i <- grad f_i(x^t) for i in S.

    Client i keeps b_i, 0 at first, and the server keeps b = sum_i lambda_i b_i. x^t goes down and the change of b_i comes up. The
    estimate is unbiased for any b_i.

    Args:
        passes: Number of initial points x^0, x^1 at which all clients are asked: 0, 1 or 2. A cohort is asked at the others.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Icgm(t.Nice(2), t.Saga(passes=1), lam=5.0), problem, rounds=10)
        >>> trace.ledger.totals()["draws_random"]
        10
    """

    passes: Passes = static(default=2)

    def client_state(self, x):
        return zeros(x)

    def start(self, ask, sampler, x):
        return self.refreshed(ask, self.everyone if self.passes else sampler, x, zeros(x))

    def step(self, ask, sampler, new, old, estimate):
        def by(sampler: Sampler):
            return lambda b: self.refreshed(ask, sampler, new, b)

        if self.passes < 2:
            return by(sampler)(estimate.memory)
        return ask.cond(ask.round == 1, by(self.everyone), by(sampler), estimate.memory)

    def refreshed(self, ask: Ask, sampler: Sampler, x: PyTree, b: PyTree) -> Estimate:
        """Return the estimate at x and the new b, after the clients drawn by `sampler` replaced their b_i.

        Args:
            ask: Access to the clients.
            sampler: Draws the clients.
            x: Parameters.
            b: b = sum_i lambda_i b_i before.
        """
        replies = ask(sampler, self.renew, x)
        ask.observe(replies)
        return Estimate(add(b, replies.average()), add(b, replies.total()))

    @on_client
    def renew(self, client, x):
        """The change of b_i to grad f_i(x)."""
        gradient = self.oracle(client).grad(x)
        return Done(add(gradient, client.state.memory, -1.0), client.state._replace(memory=gradient))


@record
class Sag(Saga):
    """SAG with cohorts (Schmidt et al., 2017): as `Saga`, but g^t = b after b_i <- grad f_i(x^t) for i in S.

    The estimate is biased and has less variance than that of `Saga`, for the same messages. Its error is not bounded by how much
    the clients' functions differ (Cost-aware client selection, appendix D).

    Args:
        passes: As in `Saga`.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Icgm(t.Nice(2), t.Sag(), lam=5.0), problem, rounds=10)
        >>> trace.ledger.totals()["draws_random"]
        9
    """

    def refreshed(self, ask, sampler, x, b):
        b = super().refreshed(ask, sampler, x, b).memory
        return Estimate(b, b)
