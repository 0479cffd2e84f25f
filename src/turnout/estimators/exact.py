"""No estimate: the gradient itself."""

from jaxtyping import PyTree

from turnout.core.algorithm import Ask
from turnout.core.records import record
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.estimators.base import Estimate, Estimator, Reach


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
