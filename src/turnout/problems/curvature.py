"""The curvature of a problem whose smoothness is not known."""

import jax
import numpy as np

from turnout.core.seeds import host_key
from turnout.problems.base import Problem
from turnout.problems.derivatives import Derivatives, vector

TOLERANCE = 1e-2


def smoothness(problem: Problem) -> float:
    """Return L, the largest L_i, or where these are not known the largest curvature of f at the start.

    Args:
        problem: A problem whose clients are at hand.
    """
    known = problem.constants()
    return largest_curvature(problem) if known is None else float(known.smoothness.max())


def largest_curvature(problem: Problem) -> float:
    """Return the largest eigenvalue of the Hessian of f at the initial parameters, to one per cent.

    Args:
        problem: A problem whose clients are at hand.
    """
    # Slow to import, and not needed by all runs.
    from scipy.sparse.linalg import LinearOperator, eigsh

    double = problem.precision == "double"
    derivatives = Derivatives(problem, double)
    with jax.enable_x64(double):
        start = vector(problem.start(host_key(0)))
    hessian = LinearOperator((start.size, start.size), matvec=lambda v: derivatives.along(start, v), dtype=float)
    first = np.random.default_rng(0).normal(size=start.size)
    return float(eigsh(hessian, k=1, which="LA", tol=TOLERANCE, v0=first, return_eigenvectors=False)[0])
