"""What the theorems say of a bound algorithm on a problem: constants, bounds and sampling errors, or why there are none."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.problems.at_optimum import at_optimum
from turnout.problems.base import Problem
from turnout.samplers.shuffled import Shuffled
from turnout.theory.bounds import Bound
from turnout.theory.constants import DesignConstants, constants_of
from turnout.theory.design_table import table_4
from turnout.theory.feddcd import LowerBound
from turnout.theory.feddcd_bounds import lower_bound_of
from turnout.theory.sampling_error import sampling_floor

COHORTS = (1, 2, 3, 5, 10)
"""Numbers of cohorts whose sampling error is reported."""


@dataclass(frozen=True)
class Theory:
    """What is known of an algorithm on a problem.

    Args:
        constants: Constants of the problem under the sampler.
        floors: E|x - x*|^2 of cohorts solved exactly, for each number of COHORTS; None where unknown.
        bound: A bound, or the sentence that says why there is none.
        designs: `table_4` of the clients.
        lower: A lower bound; None where there is none.
    """

    constants: DesignConstants
    floors: list[float] | None
    bound: Bound | str
    designs: dict[str, dict[str, float]]
    lower: LowerBound | None = None

    def facts(self) -> dict:
        """Return the entries of a summary."""
        facts: dict[str, Any] = {
            "mu": _range(self.constants.convexity),
            "L": _range(self.constants.smoothness),
            "mu_as": self.constants.mu,
            "sigma2_as": self.constants.sigma2,
            "gradient_norms2": _range(self.constants.gradient_norms2),
            "distance2": self.constants.distance2,
            "designs": self.designs,
        }
        if self.floors is not None:
            facts["floors"] = {str(m): floor for m, floor in zip(COHORTS, self.floors, strict=True)}
        if self.lower is not None:
            facts["lower"] = vars(self.lower)
        return {**facts, **({"no_bound": self.bound} if isinstance(self.bound, str) else {"bound": vars(self.bound)})}


def theory_of(algorithm, problem: Problem, faults=None, seed: int = 0, optimum=None) -> Theory:
    """Return what is known of a bound algorithm on `problem`.

    Args:
        algorithm: Algorithm that is bound to `problem`.
        problem: A strongly convex problem.
        faults: How replies are lost; None means not at all.
        seed: Seed of the first parameters.
        optimum: The minimiser, if known.

    Raises:
        UserError: If the problem is not strongly convex.
    """
    if not problem.strongly_convex:
        raise UserError(f"the theory is about strongly convex problems, and {type(problem).__name__} is not one: take another")
    at = at_optimum(problem, optimum)
    constants = constants_of(problem, algorithm.sampler, at, seed)
    floors = None if algorithm.is_dual else sampling_floor(problem, algorithm.sampler, COHORTS, at)
    try:
        bound = bound_of(algorithm, problem, constants, faults)
    except UserError as error:
        bound = str(error)
    designs = table_4(algorithm.sampler, problem.population, constants.convexity, at.gradients)
    return Theory(constants, floors, bound, designs, lower_bound_of(algorithm, problem))


def bound_of(algorithm, problem: Problem, constants: DesignConstants, faults=None) -> Bound:
    """Return the bound on the runs of a bound algorithm.

    Args:
        algorithm: Algorithm that is bound to `problem`.
        problem: The problem.
        constants: Its constants under the sampler of the algorithm.
        faults: How replies are lost; None means not at all.

    Raises:
        UserError: If there is none; the sentence says why.
    """
    if faults is not None and faults.missing == "skip":
        raise UserError("the theorems need every reply, but lost ones are skipped")
    if isinstance(algorithm.sampler, Shuffled):
        raise UserError("the theorems need independent draws, but this sampler shuffles an epoch's cohorts")
    return algorithm.bounds(problem, constants)


def has_theory(algorithm: Algorithm) -> bool:
    """Return whether a theorem may be about `algorithm`, so that summaries of its runs say what theory knows."""
    return algorithm.is_dual or type(algorithm).bounds is not Algorithm.bounds


def _range(values: np.ndarray) -> list[float]:
    return [float(values.min()), float(values.max())]
