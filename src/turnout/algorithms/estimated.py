"""What CE-LGD, SABER-full and FedPAGE share: a server that moves x along an estimate of the gradient."""

from dataclasses import field, replace

from turnout.core.algorithm import Algorithm
from turnout.core.records import record
from turnout.estimators import Estimator, Storm
from turnout.estimators.base import ClientMemory
from turnout.samplers import Sampler


@record
class Estimated(Algorithm):
    """The server keeps x and an estimate v of grad f(x), which begins with the run and which each round ends with.

    Args:
        sampler: Draws the cohorts of the estimator.
        estimator: Makes v; any gradient estimator.
    """

    sampler: Sampler
    estimator: Estimator = field(default=Storm(), kw_only=True)

    cohorts_per_round = None

    def bind(self, problem):
        return replace(self, estimator=self.estimator.bind(self.sampler, problem))

    def client_state(self, x):
        return ClientMemory(self.estimator.client_state(x))

    def start(self, ask, x):
        return x, self.estimator.start(ask, self.sampler, x)

    def output(self, server):
        return server[0]
