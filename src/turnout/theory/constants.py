"""The constants of theorems for a problem and a design, computed at the minimiser in double precision."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.core.seeds import host_key
from turnout.problems.at_optimum import AtOptimum, at_optimum
from turnout.problems.base import Problem
from turnout.problems.derivatives import vector
from turnout.samplers.base import Sampler
from turnout.theory.designs import convexity, variance


class DesignConstants(NamedTuple):
    """The constants of Cohort Squeeze, Theorem 1.

    Args:
        convexity: mu_i [n].
        smoothness: L_i [n].
        mu: mu_AS of the design.
        sigma2: sigma^2_AS of the design.
        distance2: |x_0 - x*|^2.
        gradient_norms2: |grad f_i(x*)|^2 [n].
    """

    convexity: Float[np.ndarray, " n"]
    smoothness: Float[np.ndarray, " n"]
    mu: float
    sigma2: float
    distance2: float
    gradient_norms2: Float[np.ndarray, " n"]

    @property
    def clients(self) -> int:
        """The number of clients n."""
        return len(self.convexity)


def constants_of(problem: Problem, sampler: Sampler, at: AtOptimum | None = None, seed: int = 0) -> DesignConstants:
    """Return the constants of Theorem 1 for `problem` under `sampler`.

    Args:
        problem: The problem.
        sampler: Sampler that is bound to it.
        at: What is known at the minimiser; None finds it.
        seed: Seed of the first parameters x_0.

    Raises:
        UserError: If the f_i are not strongly convex.

    Examples:
        >>> import turnout as t
        >>> from turnout.theory.constants import constants_of
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> constants_of(problem, t.Nice(2)).clients
        8
    """
    constants = problem.constants() if problem.strongly_convex else None
    if constants is None or not np.all(constants.convexity > 0):
        raise UserError(f"the theory needs strongly convex f_i, unlike those of {type(problem).__name__}: give it mu > 0")
    at = at_optimum(problem) if at is None else at
    with jax.enable_x64(True):
        start = vector(problem.start(host_key(seed)))
    return DesignConstants(
        convexity=np.asarray(constants.convexity),
        smoothness=np.asarray(constants.smoothness),
        mu=float(convexity(sampler, problem.population, np.asarray(constants.convexity))),
        sigma2=float(variance(sampler, problem.population, at.gradients)),
        distance2=float(np.sum((start - at.x) ** 2)),
        gradient_norms2=np.sum(at.gradients**2, axis=1),
    )
