"""DIANA: unbiased compressed gradients with memories that take the variance of compression to zero."""

from dataclasses import replace

from turnout.algorithms.learned_gradient import LearnedGradient
from turnout.codecs.trees import variance_of
from turnout.core.records import record
from turnout.core.tree import add
from turnout.theory.compression import diana_step


@record
class Diana(LearnedGradient):
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

    def bind(self, problem):
        return self if self.lr is not None else replace(self, lr=diana_step(problem, self.sampler, self.codec))

    def memory_rate(self, x):
        return 1 / (1 + variance_of(self.codec, x))

    def estimate(self, memory, replies):
        return add(memory, replies.average())
