"""EF21-Muon: steps of Muon along memories that learn the clients' momenta from compressed differences."""

from dataclasses import KW_ONLY
from typing import NamedTuple

from jaxtyping import PyTree

from turnout.codecs.base import Codec
from turnout.codecs.trees import ask_compressed, compress
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add, mixture, zeros
from turnout.optimisers.lmo import lmo
from turnout.optimisers.schedules import Schedule, scheduled
from turnout.samplers import Sampler


class Ef21MuonState(NamedTuple):
    """x, and `memory` = G = sum_i lambda_i G_i."""

    x: PyTree
    memory: PyTree


class MomentumAndMemory(NamedTuple):
    """M_i and G_i."""

    momentum: PyTree
    memory: PyTree


@record
class Ef21Muon(Algorithm):
    """EF21-Muon: error feedback for the steps of Muon (Gruntkowska et al., 2025, Algorithm 1).

    M_i <- (1 - alpha) M_i + alpha grad f_i(x) and G_i <- G_i + C(M_i - G_i) for i in S, then x <- x + lr lmo(sum_i lambda_i G_i);
    M_i = G_i = 0 at first.

    For a matrix G = U S V^T, lmo(G) = -U V^T up to Newton-Schulz steps, and for any other leaf lmo(g) = -g / |g|. The mean of the
    memories is orthogonalised once, at the server, so that clients may differ. C is a contraction, such as `TopK`, or an unbiased
    codec with variance omega, which is divided by 1 + omega. The paper has all clients take part, and compresses x as well,
    which an `Exchange` does: `down` with feedback = "ef21".

    Each step has the length lr whatever the gradients are: x* is approached as lr falls by a `schedule`.

    Args:
        sampler: Who takes part in each round.
        codec: C.
        lr: Step size of the server, > 0.
        alpha: Weight of the new gradient in the momentum, in (0, 1]; beta in the paper.
        iterations: Newton-Schulz steps of each lmo.
        schedule: Factor of lr in each round.
        batch: Rows of the gradient; None for all rows.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> algorithm = t.Ef21Muon(t.Full(), t.codecs.TopK(count=2), lr=0.1)
        >>> trace = t.run(algorithm, problem, rounds=5, exchange=t.Exchange(down=t.codecs.TopK(count=2), feedback="ef21"))
        >>> trace.ledger.totals()["bytes_up"] == trace.ledger.totals()["bytes_down"]
        True
    """

    sampler: Sampler
    codec: Codec = static()
    lr: Positive
    _: KW_ONLY
    alpha: Fraction = 0.1
    iterations: Count = 5
    schedule: Schedule | None = None
    batch: Count | None = static(default=None)

    def start(self, ask, x):
        return Ef21MuonState(x, zeros(x))

    def client_state(self, x):
        return MomentumAndMemory(zeros(x), zeros(x))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        replies = ask_compressed(ask, self.sampler, self.change, server.x, self.codec, server.x, contract=True)
        ask.observe(replies)
        memory = add(server.memory, replies.total())
        x = add(server.x, lmo(memory, self.iterations), scheduled(self.lr, self.schedule, ask.round))
        return if_any(replies, Ef21MuonState(x, memory), server)

    @on_client
    def change(self, client, message):
        """C(M_i - G_i), the change of G_i."""
        x, key = message
        rows = client if self.batch is None else client.batch(client.key, self.batch)
        momentum = mixture(self.alpha, rows.grad(x), client.state.momentum)
        difference = add(momentum, client.state.memory, -1.0)
        payload, change = compress(self.codec, difference, client, key, contract=True)
        return Done(payload, MomentumAndMemory(momentum, add(client.state.memory, change)))
