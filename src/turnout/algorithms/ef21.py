"""EF21: gradient descent along memories that learn the clients' gradients from compressed differences."""

from dataclasses import replace
from typing import Any, NamedTuple

from jaxtyping import PyTree

from turnout.codecs.base import Codec
from turnout.codecs.trees import ask_compressed, compress
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Positive, record, static
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler
from turnout.theory.compression import ef21_step


class Ef21State(NamedTuple):
    """x, and `memory` = g = sum_i lambda_i g_i."""

    x: PyTree
    memory: PyTree


@record
class Ef21(Algorithm):
    """EF21 (Richtarik et al., 2021) with full participation, and EF21-PP (Fatkhullin et al., 2021) with any other sampler.

    g_i <- g_i + C(grad f_i(x) - g_i) for i in S, then x <- x - lr sum_i lambda_i g_i; g_i = 0 at first.

    C is a contraction, such as `TopK`, or an unbiased codec with variance omega, which is divided by 1 + omega. The client keeps
    its g_i, and the server their sum.

    Args:
        sampler: Who takes part in each round.
        codec: C.
        lr: Step size of the server, > 0; None means that of the theorem (`theory.compression.ef21_step`).

    Raises:
        UserError: Where lr is left out, and L_i of the problem, alpha of C or p_i of the cohorts are not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.Ef21(t.Nice(4), t.codecs.TopK(count=2)), problem, rounds=5)
        >>> trace.ledger.totals()["bytes_up"]
        340
    """

    sampler: Sampler
    codec: Codec = static()
    lr: Positive | None = None

    def bind(self, problem):
        return self if self.lr is not None else replace(self, lr=ef21_step(problem, self.sampler, self.codec))

    def start(self, ask, x):
        return Ef21State(x, zeros(x))

    def client_state(self, x):
        return zeros(x)

    def output(self, server):
        return server.x

    @property
    def _lr(self) -> Any:
        """The step size, which `bind` sets where it is not given."""
        return self.lr

    def round(self, ask, server):
        replies = ask_compressed(ask, self.sampler, self.change, server.x, self.codec, server.x, contract=True)
        ask.observe(replies)
        memory = add(server.memory, replies.total())
        return Ef21State(add(server.x, memory, -self._lr), memory)

    @on_client
    def change(self, client, message):
        """C(grad f_i(x) - g_i), the change of g_i."""
        x, key = message
        payload, change = compress(self.codec, add(client.grad(x), client.state, -1.0), client, key, contract=True)
        return Done(payload, add(client.state, change))
