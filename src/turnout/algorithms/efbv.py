"""EF-BV: learned gradients with two rates, of which EF21 and DIANA are special cases."""

from dataclasses import replace

from turnout.algorithms.learned_gradient import LearnedGradient
from turnout.core.records import Fraction, record
from turnout.core.tree import add
from turnout.theory.compression import efbv_steps


@record
class EfBv(LearnedGradient):
    """EF-BV (Condat, Yi and Richtarik, 2022, Algorithm 1) without a regulariser, for any sampler.

    x <- x - lr (sum_i lambda_i h_i + nu sum_{i in S} (lambda_i / p_i) m_i), m_i = C(grad f_i(x) - h_i), then
    h_i <- h_i + rate m_i for i in S; h_i = 0 at first.

    `rate` is the paper's lambda. With full participation rate = nu = 1 is EF21, and rate = 1 / (1 + omega), nu = 1 is DIANA. The
    defaults take the least variance: for an unbiased C rate = 1 / (1 + omega) and nu = 1 / (1 + v), v `cohort_variance`, which is
    omega / n where all take part with equal weights: unlike EF21, more clients allow larger steps. For a contraction rate = 1
    and nu = min_i p_i, as EF21. The paper has full participation; a client that is drawn with probability p_i and weighs 1 / p_i
    is the codec that is C / p_i with probability p_i and 0 else.

    With r and r_av of `theory.compression.efbv_steps`, s = sqrt((1 + r) / (2 r)) - 1, theta = s (1 + s) r / r_av and
    lr <= 1 / (L + L~ sqrt(r_av / r) / s), the gap f(x) - f* + lr / (2 theta) sum_i lambda_i |h_i - grad f_i(x)|^2 falls by
    max {1 - lr mu, (1 + r) / 2} a round in expectation (Theorem 1); f need not be convex if |grad f|^2 >= 2 mu (f - f*).

    Args:
        sampler: Who takes part in each round.
        codec: C.
        lr: Step size of the server, > 0; None means the largest of the theorem.
        rate: Rate of the memories, in (0, 1].
        nu: Weight of the new differences in a step, in (0, 1].

    Raises:
        UserError: Where a number is left out, and L_i of the problem or constants of C or of the cohorts are not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.EfBv(t.Full(), t.codecs.Qsgd(bits=4)), problem, rounds=5)
        >>> trace.ledger.totals()["bytes_up"]
        200
    """

    rate: Fraction | None = None
    nu: Fraction | None = None

    def bind(self, problem):
        if None not in (self.lr, self.rate, self.nu):
            return self
        return replace(self, **efbv_steps(problem, self.sampler, self.codec, self.lr, self.rate, self.nu)._asdict())

    def memory_rate(self, x):
        return self.rate

    def estimate(self, memory, replies):
        return add(memory, replies.average(), self.nu)
