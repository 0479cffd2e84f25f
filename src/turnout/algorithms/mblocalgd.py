"""Local gradient descent with unbiased weights."""

from turnout.algorithms.fedavg import add, descend_locally, settle_work, with_rate
from turnout.exchange import Algorithm, on_client
from turnout.records import Count, Positive, record, static
from turnout.samplers import Sampler


@record
class MbLocalGd(Algorithm):
    """x <- x + sum_{i in S} (lambda_i / p_i) (y_i - x), with y_i as in `FedAvg`: MB-LocalGD of Cohort Squeeze, section 3.5.

    In expectation over the cohort it takes the step of full participation, whatever the sampler; `steps`, `batch`,
    `epochs` and `decay` are as there.
    """

    sampler: Sampler
    lr: Positive
    steps: Count | None = None
    decay: Positive | None = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None

    def __post_init__(self):
        settle_work(self, steps=5)

    def round(self, ask, x):
        replies = ask(self.sampler, self.train, with_rate(self, ask, x))
        ask.observe(replies)
        return add(x, replies.average())

    @on_client
    def train(self, client, message):
        """y_i - x."""
        return descend_locally(self, client, message)
