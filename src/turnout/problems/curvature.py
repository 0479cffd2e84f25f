"""The curvature of a problem whose smoothness is not known."""

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from turnout.problems.base import Problem

TOLERANCE = 1e-2


def largest_curvature(problem: Problem) -> float:
    """Return the largest eigenvalue of the Hessian of f at the initial parameters, to one per cent.

    Args:
        problem: A problem whose clients are at hand.
    """
    # Slow to import, and not needed by all runs.
    from scipy.sparse.linalg import LinearOperator, eigsh

    from turnout.problems.storage.layout import objective
    from turnout.problems.storage.store import store

    with jax.enable_x64(problem.precision == "double"):
        storage = store(problem)
        start, unravel = ravel_pytree(problem.start(jax.random.key(0)))

        @jax.jit
        def hessian_times(storage, v):
            def gradient(x):
                return ravel_pytree(objective(storage, "value_and_grad", unravel(x))[1])[0]

            return jax.jvp(gradient, (start,), (v.astype(start.dtype),))[1]

        product = LinearOperator(
            (start.size, start.size), matvec=lambda v: np.asarray(hessian_times(storage, v), float), dtype=float
        )
        first = np.random.default_rng(0).normal(size=start.size)
        return float(eigsh(product, k=1, which="LA", tol=TOLERANCE, v0=first, return_eigenvectors=False)[0])
