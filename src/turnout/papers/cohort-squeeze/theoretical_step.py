"""LocalGD, MB-GD and MB-LocalGD at the step size of Gower et al. (2019) for cohorts of m uniform clients."""

from dataclasses import replace

import jax
import numpy as np

import turnout as t
from turnout.core.records import Positive, record
from turnout.problems.at_optimum import at_optimum
from turnout.problems.optimum import Optimum

TARGET = 0.005
"""E|x - x*|^2 that the step size is for."""


@record
class LocalGd(t.FedAvg):
    """`FedAvg` at the theoretical step size. Args are those of `FedAvg`; lr is set by `bind`."""

    sampler: t.Nice
    lr: Positive | None = None

    def bind(self, problem):
        return replace(super().bind(problem), lr=self.lr or step_size(problem, self.sampler.size))


@record
class MbGd(t.MbGd):
    """`MbGd` at the theoretical step size. Args are those of `MbGd`; lr is set by `bind`."""

    sampler: t.Nice
    lr: Positive | None = None

    def bind(self, problem):
        return replace(self, lr=self.lr or step_size(problem, self.sampler.size))


@record
class MbLocalGd(t.MbLocalGd):
    """`MbLocalGd` at the theoretical step size. Args are those of `MbLocalGd`; lr is set by `bind`."""

    sampler: t.Nice
    lr: Positive | None = None

    def bind(self, problem):
        return replace(super().bind(problem), lr=self.lr or step_size(problem, self.sampler.size))


def step_size(problem: t.Problem, size: int, target: float = TARGET) -> float:
    """Return min{1 / (2 cL), target mu / (4 sigma^2)} of Gower et al. (2019), Corollary 3.3, for logistic losses.

    cL = n (m - 1) / (m (n - 1)) L + (n - m) / (m (n - 1)) max_i L_i; sigma^2 = (n - m) / (n m (n - 1)) sum_i |grad f_i(x*)|^2.
    L is the largest eigenvalue of the Hessian of f at 0, where a logistic loss has its largest curvature.

    Args:
        problem: Logistic regression with equal clients.
        size: Number m of clients in a cohort.
        target: E|x - x*|^2 to reach.
    """
    constants, n = problem.constants(), problem.clients
    with jax.enable_x64(True):
        start = problem.start(jax.random.key(0))
    at_zero = at_optimum(problem, Optimum(np.zeros(start.shape), 0.0))
    largest, most = float(np.linalg.eigvalsh(at_zero.hessian)[-1]), float(np.max(constants.smoothness))
    expected = (n * (size - 1) * largest + (n - size) * most) / (size * (n - 1))
    noise = (n - size) / (n * size * (n - 1)) * float(np.sum(at_optimum(problem).gradients ** 2))
    return min(1 / (2 * expected), target * float(np.min(constants.convexity)) / (4 * noise))
