"""What the theorems need to know of a problem and a design, computed at the minimiser in double precision."""

from typing import NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.problems.at_optimum import AtOptimum, at_optimum
from turnout.problems.base import Problem
from turnout.samplers.base import Sampler
from turnout.theory.designs import convexity, variance


class DesignConstants(NamedTuple):
    """mu_i and L_i [n], mu_AS, sigma^2_AS, |x_0 - x*|^2 and |grad f_i(x*)|^2 [n] (Cohort Squeeze, Theorem 1)."""

    convexity: Float[np.ndarray, " n"]
    smoothness: Float[np.ndarray, " n"]
    mu: float
    sigma2: float
    distance2: float
    gradient_norms2: Float[np.ndarray, " n"]

    @property
    def clients(self) -> int:
        return len(self.convexity)


def constants_of(problem: Problem, sampler: Sampler, at: AtOptimum | None = None, seed: int = 0) -> DesignConstants:
    """Return the constants of Theorem 1 for `problem` under the bound `sampler`; x_0 is the start that `seed` makes.

    `at` saves the work of finding the minimiser. Raises `UserError` where f is not strongly convex.
    """
    known = problem.constants() if problem.strongly_convex else None
    if known is None or not np.all(known.convexity > 0):
        raise UserError(f"the theory needs strongly convex f_i, which {type(problem).__name__} does not promise: give it mu > 0")
    at = at_optimum(problem) if at is None else at
    with jax.enable_x64(True):
        start = np.asarray(ravel_pytree(problem.start(jax.random.key(seed)))[0])
    return DesignConstants(
        convexity=np.asarray(known.convexity),
        smoothness=np.asarray(known.smoothness),
        mu=float(convexity(sampler, problem.population, np.asarray(known.convexity))),
        sigma2=float(variance(sampler, problem.population, at.gradients)),
        distance2=float(np.sum((start - at.x) ** 2)),
        gradient_norms2=np.sum(at.gradients**2, axis=1),
    )
