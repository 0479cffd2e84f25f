"""Loopless SVRG: the gradient at an anchor, which moves at random."""

from typing import NamedTuple

from jaxtyping import PyTree

from turnout.core.algorithm import Ask
from turnout.core.records import Fraction, record
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.estimators.base import Estimate, Estimator, coin


class Anchor(NamedTuple):
    """The anchor w and grad f(w)."""

    point: PyTree
    gradient: PyTree


@record
class Svrg(Estimator):
    """Loopless SVRG with cohorts (Kovalev et al., 2020; Cost-aware client selection, section 4.2).

    g^t = grad f(w) + sum_{i in S} (lambda_i / p_i) (grad f_i(x^t) - grad f_i(w)), or w = x^t and g^t = grad f(w).

    A full pass moves w to x^t; otherwise x^t and w go down and one difference comes up. Clients keep nothing.

    Args:
        probability: Probability of a full pass in a round, in (0, 1]; None means m / n.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.Icgm(t.Nice(2), t.Svrg(probability=0.1), lam=5.0), problem, rounds=10)
        >>> trace.ledger.totals()["draws_delegate"]
        10
    """

    probability: Fraction | None = None

    cohort_defaults = {"probability": 1.0}

    def start(self, ask, sampler, x):
        anchor = self.anchored(ask, x, Anchor(x, zeros(x)))
        return Estimate(anchor.gradient, anchor)

    def step(self, ask, sampler, new, old, estimate):
        def move(anchor):
            anchor = self.anchored(ask, new, anchor)
            return Estimate(anchor.gradient, anchor)

        def stay(anchor):
            replies = ask(sampler, self.difference, (new, anchor.point))
            ask.observe(replies)
            return Estimate(add(anchor.gradient, replies.average()), anchor)

        return ask.cond(coin(ask, self.probability), move, stay, estimate.memory)

    def anchored(self, ask: Ask, x: PyTree, anchor: Anchor) -> Anchor:
        """Return the anchor at x, after a full pass; `anchor` if no client answered.

        Args:
            ask: Access to the clients.
            x: Parameters of the new anchor.
            anchor: The anchor before.
        """
        replies = ask(self.everyone, self.gradient, x)
        return if_any(replies, Anchor(x, replies.mean()), anchor)
