"""FedOpt: an optimiser at the server, and one at the clients."""

from dataclasses import field

import jax

from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import record
from turnout.core.tree import add
from turnout.local_training.base import LocalTraining, moved
from turnout.optimisers import Optimiser


@record
class FedOpt(LocalTraining):
    """x <- a step of `server_optimiser` along mean_{i in S} (x - y_i), y_i being x after local steps of `optimiser`, begun anew.

    Reddi et al. (2021, Algorithm 1). FedAdam, FedYogi and FedAdagrad have the servers of these names; FedAdam-AdaGrad has
    `FedAdam` and `Adagrad` (Wang et al., 2021, without their corrections). With lr = 1 the server's `Sgd` is FedAvg.
    """

    optimiser: Optimiser = field(kw_only=True)
    server_optimiser: Optimiser = field(kw_only=True)

    def fitted(self, problem):
        if self.server_optimiser.needs_hessian:
            kind = type(self.server_optimiser).__name__
            raise UserError(f"a server has no Hessian, so {kind} cannot be its optimiser: take another server_optimiser")
        self.optimiser.check(problem)
        return super().fitted(problem)

    def begin(self, x):
        return self.server_optimiser.start(x)

    def play(self, meeting, x, memory):
        change = meeting.mean(self.train, x)
        return self.server_optimiser.step(x, jax.tree.map(lambda change: -change, change), memory)

    @on_client
    def train(self, client, message):
        """y_i - x."""
        x, _, objective, factor = self.opened(client, message)
        optimiser = self.optimiser.with_lr_factor(factor)

        def step(rows, carry):
            return moved(optimiser, client, objective, objective.grad(rows, carry[0]), carry, rows)

        (y, _), steps = self.work(client, step, (x, optimiser.start(x)))
        return Done(add(y, x, -1.0), queries=self.optimiser.queries * steps)
