"""What algorithms share whose x is moved by one random client along an estimate of the gradient, which then follows."""

from dataclasses import field, replace

from turnout.algorithms.icgm import Server
from turnout.algorithms.passes import everyone
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Client, Done
from turnout.core.errors import UserError
from turnout.core.records import record
from turnout.core.tree import add
from turnout.estimators import Estimator, Storm
from turnout.estimators.base import Kept, Reach
from turnout.samplers import Full, Nice, Sampler


@record
class Followed(Algorithm):
    """x+ = x + the reply of one random client to x and v, `estimator` then making v of x+, x and v, which is about grad f(x).

    Papers write rounds that begin with v: here each ends with it, and the iterates are the same. A subclass writes `move`.
    """

    sampler: Sampler
    estimator: Estimator = field(default=Storm(), kw_only=True)
    one: Sampler = field(default=Nice(1), repr=False, kw_only=True)
    everyone: Full = field(default=Full(), repr=False, kw_only=True)

    def bind(self, problem):
        whole = everyone(self.sampler, problem.population)
        return replace(self, everyone=whole, estimator=self.estimator.bind((whole.size or 1) / problem.clients, None))

    def client_state(self, x):
        return Kept(self.estimator.client_state(x))

    def start(self, ask, x):
        return Server(x, self.estimator.start(ask, Reach(self.sampler, self.everyone), x))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        x, estimate = server.x, server.estimate
        new = add(x, ask(self.one, self.move, (x, estimate.gradient)).mean())
        return Server(new, self.estimator.step(ask, Reach(self.sampler, self.everyone), new, x, estimate))

    @on_client
    def move(self, client: Client, message) -> Done:
        """x+ - x."""
        raise UserError(f"{type(self).__name__} has no move(self, client, message): write one")
