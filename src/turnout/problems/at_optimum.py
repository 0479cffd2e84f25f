"""Gradients and Hessian of the clients' functions at the minimiser of f, in double precision."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from turnout.problems.base import Problem
from turnout.problems.derivatives import Derivatives, vector
from turnout.problems.optimum import kept_of, solve

DENSE = 2000
"""The largest number of parameters for which the Hessian is computed."""


class AtOptimum(NamedTuple):
    """Derivatives at the minimiser of f.

    Args:
        x: x* as one vector [d].
        gradients: grad f_i(x*) of every client [n, d].
        hessian: The Hessian of f at x* [d, d]; None for more than `DENSE` parameters.
    """

    x: Float[np.ndarray, " d"]
    gradients: Float[np.ndarray, "n d"]
    hessian: Float[np.ndarray, "d d"] | None


def at_optimum(problem: Problem, optimum=None) -> AtOptimum:
    """Return the derivatives at the minimiser of f, which is `optimum`, or computed here if None.

    Args:
        problem: The problem.
        optimum: The minimiser; None computes it.
    """
    optimum = solve(problem) if optimum is None else optimum
    derivatives = Derivatives(problem)
    x = vector(optimum.x)
    if derivatives.size > DENSE:
        return AtOptimum(x, derivatives.of_clients(x), None)

    def second():
        return [*derivatives.second(x)]

    return AtOptimum(x, *(kept_of(problem, "derivatives", [x], second) if derivatives.small else second()))
