"""Point-SAGA with a step size that follows from how much the clients' Hessians differ."""

import math
from dataclasses import replace

import numpy as np

import turnout as t
from turnout.core.records import Positive, record
from turnout.theory.dissimilarity import average_dissimilarity


@record
class PointSaga(t.PointSaga):
    """`PointSaga` with gamma = sqrt(tau / (n mu delta)), for cohorts of tau out of n clients.

    It is the gamma of the rate of `PointSaga` with delta, sum_i lambda_i |H_i v - H v|^2 <= delta^2 |v|^2 for the Hessians at the
    start, in the place of L: a heuristic, as the rate does not know delta. Args are those of `PointSaga`; gamma is set by `bind`.
    """

    sampler: t.Nice
    gamma: Positive | None = None

    def bind(self, problem):
        return replace(super().bind(problem), gamma=self.gamma or step_size(problem, self.sampler.size))


def step_size(problem: t.Problem, size: int) -> float:
    """Return sqrt(size / (n mu delta)).

    Args:
        problem: The problem, strongly convex.
        size: Number of clients in a cohort.
    """
    mu = float(np.min(problem.constants().convexity))
    return math.sqrt(size / (problem.clients * mu * average_dissimilarity(problem)))
