"""The full gradient in the place of an estimate."""

from jaxtyping import PyTree

from turnout.core.algorithm import Ask
from turnout.core.records import record
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.estimators.base import Estimate, Estimator


@record
class Exact(Estimator):
    """The gradient itself, g^t = grad f(x^t), by a full pass in every round.

    One vector down and one up. With lost replies it is the mean over the clients that answered.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Icgm(t.Nice(2), t.Exact(), lam=5.0), problem, rounds=10)
        >>> trace.ledger.totals()["draws_arbitrary"]
        44
    """

    def start(self, ask, sampler, x):
        return self.full(ask, x, Estimate(zeros(x)))

    def step(self, ask, sampler, new, old, estimate):
        return self.full(ask, new, estimate)

    def step_with_change(self, ask, sampler, new, old, estimate):
        exact = self.step(ask, sampler, new, old, estimate)
        return exact, add(exact.gradient, estimate.gradient, -1.0)

    def full(self, ask: Ask, x: PyTree, estimate: Estimate) -> Estimate:
        """Return grad f(x) by a full pass, or `estimate` if no client answered.

        Args:
            ask: Access to the clients.
            x: Parameters.
            estimate: The estimate before.
        """
        replies = ask(self.everyone, self.gradient, x)
        return if_any(replies, Estimate(replies.mean()), estimate)
