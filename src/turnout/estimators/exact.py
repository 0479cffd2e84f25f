"""No estimate: the gradient itself."""

from jaxtyping import PyTree

from turnout.arithmetic import add, zeros
from turnout.estimators.base import Estimate, Estimator, Reach
from turnout.exchange import Ask, if_any
from turnout.records import record


@record
class Exact(Estimator):
    """g^t = grad f(x^t), a full pass each time: one vector down, one up; the mean over those who answered."""

    def start(self, ask, reach, x):
        return self.full(ask, reach, x, Estimate(zeros(x)))

    def step(self, ask, reach, new, old, estimate):
        return self.full(ask, reach, new, estimate)

    def follow(self, ask, reach, new, old, estimate):
        found = self.step(ask, reach, new, old, estimate)
        return found, add(found.gradient, estimate.gradient, -1.0)

    def full(self, ask: Ask, reach: Reach, x: PyTree, estimate: Estimate) -> Estimate:
        """Return the gradient at x, or `estimate` if nobody answered."""
        replies = ask(reach.everyone, self.gradient, x)
        return if_any(replies, Estimate(replies.mean()), estimate)
