"""Estimators with the gradient at an anchor, which moves now and then."""

from typing import NamedTuple

from jaxtyping import PyTree

from turnout.core.algorithm import Ask
from turnout.core.records import Fraction, record
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.estimators.base import Estimate, Estimator, Reach, coin


class Anchor(NamedTuple):
    """w and the gradient of f there."""

    point: PyTree
    gradient: PyTree


@record
class Svrg(Estimator):
    """g^t = grad f(w) + sum_{i in S} (lambda_i / p_i) (grad f_i(x^t) - grad f_i(w)), or w = x^t and g^t = grad f(w).

    Loopless SVRG (Kovalev et al., 2020) with cohorts, as in cost-aware client selection, section 4.2: with `probability` (m / n
    unless given) a full pass moves w to x^t, else x^t and w go down and one difference comes up. Clients keep nothing.
    """

    probability: Fraction | None = None

    usual = {"probability": 1.0}

    def start(self, ask, reach, x):
        anchor = self.moved(ask, reach, x, Anchor(x, zeros(x)))
        return Estimate(anchor.gradient, anchor)

    def step(self, ask, reach, new, old, estimate):
        def move(anchor):
            anchor = self.moved(ask, reach, new, anchor)
            return Estimate(anchor.gradient, anchor)

        def stay(anchor):
            replies = ask(reach.random, self.difference, (new, anchor.point))
            ask.observe(replies)
            return Estimate(add(anchor.gradient, replies.average()), anchor)

        return ask.cond(coin(ask, self.probability), move, stay, estimate.memory)

    def moved(self, ask: Ask, reach: Reach, x: PyTree, anchor: Anchor) -> Anchor:
        """Return the anchor at x, after a full pass; as it was if nobody answered."""
        replies = ask(reach.everyone, self.gradient, x)
        return if_any(replies, Anchor(x, replies.mean()), anchor)
