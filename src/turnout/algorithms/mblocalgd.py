"""Local gradient descent with unbiased weights."""

from turnout.algorithms.descent import LocalDescent
from turnout.core.records import record
from turnout.core.tree import add


@record
class MbLocalGd(LocalDescent):
    """x <- x + sum_{i in S} (lambda_i / p_i) (y_i - x), with y_i as in `LocalDescent`: MB-LocalGD of Cohort Squeeze, section 3.5.

    In expectation over the cohort it takes the step of full participation, whatever the sampler.
    """

    def round(self, ask, x):
        replies = ask(self.sampler, self.train, self.message(ask, x))
        ask.observe(replies)
        return add(x, replies.average())
