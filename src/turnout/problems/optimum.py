"""The minimiser of a strongly convex problem, by L-BFGS and then Newton's method."""

from typing import NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.problems.base import Problem

TOLERANCE = 1e-12


class Optimum(NamedTuple):
    """The minimiser of f and its value.

    Args:
        x: x*.
        value: f(x*).
    """

    x: PyTree
    value: float


def solve(problem: Problem, tolerance: float = TOLERANCE) -> Optimum:
    """Return the minimiser of f in double precision, with |grad f(x*)| <= tolerance max(1, |grad f(x_0)|).

    Args:
        problem: A strongly convex problem.
        tolerance: The relative norm of the gradient to reach.

    Raises:
        UserError: The problem is not known to be strongly convex, its clients are remote, or the tolerance is not reached.
    """
    if problem.remote:
        raise UserError("clients' own losses have no known minimiser: take other metrics than 'gap' and 'distance'")
    # Slow to import, and not needed by all runs.
    from scipy.optimize import minimize
    from scipy.sparse.linalg import LinearOperator, cg

    from turnout.problems.storage.layout import objective
    from turnout.problems.storage.store import store

    if not problem.strongly_convex:
        raise UserError(f"the optimum of {type(problem).__name__} is not known: take the metric 'value' or 'gradient'")
    with jax.enable_x64(True):
        storage = store(problem)
        start, unravel = ravel_pytree(problem.start(jax.random.key(0)))

        @jax.jit
        def value_and_grad(storage, x):
            value, gradient = objective(storage, "value_and_grad", unravel(x))
            return value, ravel_pytree(gradient)[0]

        @jax.jit
        def hessian_times(storage, x, v):
            return jax.jvp(lambda x: value_and_grad(storage, x)[1], (x,), (v,))[1]

        def oracle(x):
            value, gradient = value_and_grad(storage, x)
            return float(value), np.asarray(gradient)

        x = minimize(oracle, np.asarray(start), jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
        enough = tolerance * max(1.0, float(np.linalg.norm(oracle(np.asarray(start))[1])))
        for _ in range(50):
            value, gradient = oracle(x)
            left = float(np.linalg.norm(gradient))
            if left <= enough:
                return Optimum(jax.tree.map(np.asarray, unravel(x)), value)
            hessian = LinearOperator((x.size, x.size), matvec=lambda v, x=x: hessian_times(storage, x, v), dtype=float)
            # As exactly as Newton's method needs to square |grad f|, and no more exactly than the tolerance.
            x = x - cg(hessian, gradient, rtol=min(0.1, left), atol=enough / 2, maxiter=20 * x.size)[0]
    raise UserError(
        f"the optimum was not found: |grad f| stays at {left:.1e}, above {enough:.1e}; raise mu, or normalize the features"
    )
