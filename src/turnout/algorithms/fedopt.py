"""FedOpt: an optimiser at the server, and one at the clients."""

from dataclasses import KW_ONLY
from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from turnout.client_solvers.local_sgd import Steps, check_local_work, fit_steps, local_steps, own_training, round_lr
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Client, Done
from turnout.core.records import Count, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add
from turnout.optimisers import Optimiser
from turnout.optimisers.base import hessian_probe
from turnout.optimisers.schedules import Schedule
from turnout.samplers import Sampler


class FedOptState(NamedTuple):
    """x, and the state of the server's optimiser."""

    x: PyTree
    state: Any


@record
class FedOpt(Algorithm):
    """FedOpt: optimisers at the server and at the clients (Reddi et al., 2021, Algorithm 1).

    x <- a step of `server_optimiser` along mean_{i in S} (x - y_i), where y_i is x after local steps of `optimiser` on f_i, which
    starts anew in each round.

    FedAdam, FedYogi and FedAdagrad have the server optimisers of these names. FedAdam-AdaGrad has `FedAdam` and `Adagrad` (Wang
    et al., 2021, without their corrections). With lr = 1 the server optimiser `Sgd` gives FedAvg. The mean is over the clients
    who answered.

    Args:
        sampler: Who takes part in each round.
        optimiser: Optimiser of the clients.
        server_optimiser: Optimiser of the server, a first-order one.
        steps: Local steps, or a list with one number for each client; 5 by default.
        batch: Rows in each step; None for all rows.
        epochs: Passes over the shuffled rows of a client, in the place of `steps`; needs `batch`.
        schedule: Factor of the clients' lr in each round, which is sent along.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> fedadam = t.FedOpt(t.Nice(4), t.optimisers.Sgd(0.05), t.optimisers.FedAdam(0.1), steps=3)
        >>> t.run(fedadam, problem, rounds=5).ledger.totals()["queries_total"]
        60
    """

    sampler: Sampler
    optimiser: Optimiser
    server_optimiser: Optimiser
    _: KW_ONLY
    steps: Steps = None
    batch: Count | None = static(default=None)
    epochs: Count | None = None
    schedule: Schedule | None = None

    def __post_init__(self):
        check_local_work(self)

    def bind(self, problem):
        self.server_optimiser.check_at_server()
        self.optimiser.check(problem)
        return fit_steps(self, problem)

    def start(self, ask, x):
        return FedOptState(x, self.server_optimiser.start(x))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        replies = ask(self.sampler, self.train, (server.x, round_lr(1.0, self.schedule, ask.round)))
        ask.observe(replies)
        gradient = jax.tree.map(lambda change: -change, replies.mean())
        new = FedOptState(*self.server_optimiser.step(server.x, gradient, server.state))
        return if_any(replies, new, server)

    @on_client
    def train(self, client, message):
        """y_i - x."""
        change, _, queries = self.local_training(client, message, None)
        return Done(change, queries=queries)

    def local_training(self, client: Client, message: PyTree, state: Any) -> tuple[PyTree, Any, Any]:
        """Return y_i - x, the last state of the clients' optimiser, and the number of queries.

        Args:
            client: The client.
            message: x, and the factor of lr or None.
            state: The first state of the optimiser; None means a new one.
        """
        x, factor = message
        optimiser = self.optimiser if factor is None else self.optimiser.with_lr_factor(factor)
        if client.trains_itself and state is None:
            return own_training(client, x, optimiser.lr, self.steps, self.batch, self.epochs), None, 0

        def step(rows, carry):
            y, state = carry
            return optimiser.step(y, rows.grad(y), state, hessian_probe(lambda v: rows.hvp(y, v), y, client.key))

        first = x, optimiser.start(x) if state is None else state
        (y, state), steps = local_steps(client, step, first, self.steps, self.batch, self.epochs)
        return add(y, x, -1.0), state, optimiser.queries * steps
