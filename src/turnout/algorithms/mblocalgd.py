"""Local gradient descent with unbiased weights."""

from turnout.algorithms.fedavg import add, descend_locally
from turnout.exchange import Algorithm, on_client
from turnout.records import Count, Positive, record
from turnout.samplers import Sampler


@record
class MbLocalGd(Algorithm):
    """x <- x + sum_{i in S} (lambda_i / p_i) (y_i - x), with y_i as in `FedAvg`: MB-LocalGD of Cohort Squeeze, section 3.5.

    In expectation over the cohort it takes the step of full participation, whatever the sampler; `steps` is E.
    """

    sampler: Sampler
    lr: Positive
    steps: Count = 5

    def round(self, ask, x):
        return add(x, ask(self.sampler, self.train, x).average())

    @on_client
    def train(self, client, x):
        return descend_locally(client, x, self.lr, self.steps)
