"""What EF21, DIANA and EF-BV share: clients whose gradients the server learns from compressed differences."""

from typing import Any, ClassVar, NamedTuple

from jaxtyping import PyTree

from turnout.codecs.base import Codec
from turnout.codecs.trees import ask_compressed, compress
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import Positive, record, static
from turnout.core.replies import Replies
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler


class LearnedState(NamedTuple):
    """x, and `memory` = h = sum_i lambda_i h_i."""

    x: PyTree
    memory: PyTree


@record
class LearnedGradient(Algorithm):
    """x <- x - lr g, g an estimate from h and the m_i = C(grad f_i(x) - h_i), then h_i <- h_i + rate m_i for i in S.

    h_i = 0 at first.

    Args:
        sampler: Who takes part in each round.
        codec: C.
        lr: Step size of the server, > 0; None means that of the theorem.
    """

    sampler: Sampler
    codec: Codec = static()
    lr: Positive | None = None

    contracts: ClassVar[bool] = False
    """Whether an unbiased C is divided by 1 + omega."""

    def memory_rate(self, x: PyTree) -> Any:
        """Return the rate of the h_i.

        Args:
            x: The parameters.
        """
        raise UserError(f"{type(self).__name__} has no memory_rate(self, x): write one")

    def estimate(self, memory: PyTree, replies: Replies) -> PyTree:
        """Return g.

        Args:
            memory: h.
            replies: The m_i.
        """
        raise UserError(f"{type(self).__name__} has no estimate(self, memory, replies): write one")

    def start(self, ask, x):
        return LearnedState(x, zeros(x))

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
        replies = ask_compressed(ask, self.sampler, self.difference, x, self.codec, x, contract=self.contracts)
        ask.observe(replies)
        return LearnedState(add(x, self.estimate(h, replies), -self._lr), add(h, replies.total(), self.memory_rate(x)))

    @on_client
    def difference(self, client, message):
        """m_i."""
        x, key = message
        payload, difference = compress(self.codec, add(client.grad(x), client.state, -1.0), client, key, contract=self.contracts)
        return Done(payload, add(client.state, difference, self.memory_rate(x)))
