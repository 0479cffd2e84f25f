"""Local gradient descent with unbiased weights."""

from turnout.algorithms.fedavg import add, descend_locally, with_rate
from turnout.exchange import Algorithm, on_client
from turnout.records import Count, Positive, record
from turnout.samplers import Sampler


@record
class MbLocalGd(Algorithm):
    """x <- x + sum_{i in S} (lambda_i / p_i) (y_i - x), with y_i as in `FedAvg`: MB-LocalGD of Cohort Squeeze, section 3.5.

    In expectation over the cohort it takes the step of full participation, whatever the sampler; `steps` is E, `decay` as there.
    """

    sampler: Sampler
    lr: Positive
    steps: Count = 5
    decay: Positive | None = None

    def round(self, ask, x):
        return add(x, ask(self.sampler, self.train, with_rate(self, ask, x)).average())

    @on_client
    def train(self, client, message):
        """y_i - x."""
        return descend_locally(self, client, message)
