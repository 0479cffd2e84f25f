"""SPPM at the gamma of Cohort Squeeze, Theorem 1, for a share of the first distance."""

from dataclasses import replace

import turnout as t
from turnout.core.records import Positive, record
from turnout.theory.bounds import complexity
from turnout.theory.constants import constants_of

SHARE = 0.01
"""E|x - x*|^2 that gamma is for, as a share of |x_0 - x*|^2."""


@record
class Sppm(t.Sppm):
    """`Sppm` with gamma = epsilon mu_AS / sigma^2_AS. Args are those of `Sppm`; gamma is set by `bind`."""

    gamma: Positive | None = None

    def bind(self, problem):
        if self.gamma is not None:
            return super().bind(problem)
        constants = constants_of(problem, self.sampler)
        gamma, _ = complexity(SHARE * constants.distance2, constants.mu, constants.sigma2, constants.distance2)
        return super(Sppm, replace(self, gamma=gamma)).bind(problem)
