"""DiLoCo: clients that keep the state of their optimiser, and an optimiser at the server."""

from turnout.algorithms.fedopt import FedOpt
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import record


@record
class DiLoCo(FedOpt):
    """DiLoCo, distributed low-communication training (Douillard et al., 2023, Algorithm 1).

    x <- a step of `server_optimiser` along mean_{i in S} (x - y_i), where y_i is x after local steps of `optimiser` on f_i, which
    goes on from the state that client i had at the end of its last local steps.

    It is `FedOpt` with clients that keep the state. In the paper all clients take part, `optimiser` is `AdamW`, and
    `server_optimiser` is `Sgd` with Nesterov's momentum, lr = 0.7 and momentum 0.9. MuLoCo (Therien et al., 2025) has `Muon` in
    the place of `AdamW`.

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
        >>> outer = t.optimisers.Sgd(0.7, momentum=0.9, nesterov=True)
        >>> diloco = t.DiLoCo(t.Full(), t.optimisers.AdamW(0.01), outer, steps=20)
        >>> t.run(diloco, problem, rounds=5).ledger.totals()["vectors_up"]
        40
    """

    def client_state(self, x):
        return self.optimiser.start(x)

    @on_client
    def train(self, client, message):
        """y_i - x."""
        change, state, queries = self.local_training(client, message, client.state)
        return Done(change, state, queries)
