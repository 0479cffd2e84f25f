"""Gradient descent by passes over all clients."""

from dataclasses import replace

from turnout.algorithms.mbgd import MbGd
from turnout.core.records import record
from turnout.samplers.full_pass import full_pass


@record
class Gd(MbGd):
    """x <- x - lr grad f(x): `MbGd` with all clients, as many at a time as `sampler` draws, whomever it would draw.

    GD of cost-aware client selection, appendix A, where lr = 1 / L_f.
    """

    def bind(self, problem):
        return replace(self, sampler=full_pass(self.sampler, problem.population))
