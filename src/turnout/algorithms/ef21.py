"""EF21: gradient descent along memories that learn the clients' gradients from compressed differences."""

from dataclasses import replace

from turnout.algorithms.learned_gradient import LearnedGradient
from turnout.core.records import record
from turnout.core.tree import add
from turnout.theory.compression import ef21_step


@record
class Ef21(LearnedGradient):
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

    contracts = True

    def bind(self, problem):
        return self if self.lr is not None else replace(self, lr=ef21_step(problem, self.sampler, self.codec))

    def memory_rate(self, x):
        return 1.0

    def estimate(self, memory, replies):
        return add(memory, replies.total())
