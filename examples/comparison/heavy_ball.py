"""A cohort solver of one's own: the heavy ball method."""

import turnout as t
from turnout.core.records import Positive, Proper
from turnout.solvers.base import StepResult, exchange


@t.record
class HeavyBall(t.CohortSolver):
    """y <- y - lr grad phi(y) + momentum (y - y_before)."""

    lr: Positive = 1.0
    momentum: Proper = 0.5

    def start(self, phi, memory):
        return phi.centre, phi.centre

    def step(self, ask, phi, state):
        y, before = state
        gradient = phi.gradient(y, exchange(ask, phi, self.gradient, phi.unravel(y)).average())
        return StepResult((y - self.lr * gradient + self.momentum * (y - before), y), y, gradient)

    def solution(self, state):
        return state[0]
