"""DIANA: unbiased compressed gradients with memories that take the variance of compression to zero."""

from dataclasses import replace
from typing import Any, NamedTuple

from jaxtyping import PyTree

from turnout.codecs.base import Codec
from turnout.codecs.trees import ask_compressed, compress, variance_of
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Positive, record, static
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler
from turnout.theory.compression import diana_step


class DianaState(NamedTuple):
    """x, and `memory` = h = sum_i lambda_i h_i."""

    x: PyTree
    memory: PyTree


@record
class Diana(Algorithm):
    """DIANA (Mishchenko et al., 2019) without a regulariser, for any sampler.

    x <- x - lr (sum_i lambda_i h_i + sum_{i in S} (lambda_i / p_i) m_i), m_i = C(grad f_i(x) - h_i), then
    h_i <- h_i + alpha m_i for i in S; h_i = 0 at first, alpha = 1 / (1 + omega).

    C is unbiased with variance omega. The paper has full participation; a client that is drawn with probability p_i and weighs
    1 / p_i is the codec that is C / p_i with probability p_i and 0 else.

    Args:
        sampler: Who takes part in each round.
        codec: C.
        lr: Step size of the server, > 0; None means that of the theorem for convex f_i (`theory.compression.diana_step`).

    Raises:
        UserError: Where the codec is biased, or lr is left out, and L_i or a bound for the cohorts are not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.Diana(t.Full(), t.codecs.Qsgd(bits=4)), problem, rounds=5)
        >>> trace.ledger.totals()["bytes_up"]
        200
    """

    sampler: Sampler
    codec: Codec = static()
    lr: Positive | None = None

    def bind(self, problem):
        return self if self.lr is not None else replace(self, lr=diana_step(problem, self.sampler, self.codec))

    def start(self, ask, x):
        return DianaState(x, zeros(x))

    def client_state(self, x):
        return zeros(x)

    def output(self, server):
        return server.x

    @property
    def _lr(self) -> Any:
        """The step size, which `bind` sets where it is not given."""
        return self.lr

    def round(self, ask, server):
        x, h = server
        replies = ask_compressed(ask, self.sampler, self.difference, x, self.codec, x)
        ask.observe(replies)
        return DianaState(add(x, add(h, replies.average()), -self._lr), add(h, replies.total(), self._rate(x)))

    @on_client
    def difference(self, client, message):
        """m_i."""
        x, key = message
        payload, difference = compress(self.codec, add(client.grad(x), client.state, -1.0), client, key)
        return Done(payload, add(client.state, difference, self._rate(x)))

    def _rate(self, x) -> float:
        """Return alpha."""
        return 1 / (1 + variance_of(self.codec, x))
