"""Checks of a part of a user's own: what the project's own suite checks of its algorithms, samplers, solvers and optimisers."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.optimisers import Optimiser
from turnout.problems.base import Problem
from turnout.samplers import Sampler
from turnout.solvers import CohortSolver
from turnout.testing import algorithms, optimisers, samplers, solvers

KINDS: dict[type, ModuleType] = {
    Sampler: samplers,
    CohortSolver: solvers,
    Optimiser: optimisers,
    Algorithm: algorithms,
}
"""What can be checked, and the module with its `case` and its `CHECKS`."""


def check(part: Any, problem: Problem) -> None:
    """Check a sampler, cohort solver, optimiser or algorithm on a small problem.

    The checks play short runs: on the compiled engine and on separate nodes, with new seeds and hyper-parameters, stopped and
    resumed. A sampler's draws are compared with the probabilities that it declares, a cohort solver's point with the proximal
    point, an optimiser's steps with a quadratic. `CHECKS` in `turnout.testing.samplers`, `.solvers`, `.optimisers` and
    `.algorithms` lists them.

    Args:
        part: An algorithm, sampler, cohort solver or optimiser, with its hyper-parameters.
        problem: A problem with a few clients and unknowns that the part fits; a run of a few rounds should take milliseconds.

    Raises:
        UserError: The first thing that is wrong, in one sentence that says what to do.

    Examples:
        >>> import turnout as t
        >>> from turnout.testing import check
        >>> check(t.FedAvg(t.Nice(2), lr=0.05, steps=2), t.Quadratic.random(clients=4, dimension=2, seed=0))
    """
    module = next((module for kind, module in KINDS.items() if isinstance(part, kind)), None)
    if module is None:
        kinds = ", ".join(kind.__name__ for kind in KINDS)
        raise UserError(f"testing.check knows parts that extend {kinds}, but this is {part!r}: make it one of these")
    case = _explained(type(part).__name__, lambda: module.case(part, problem))
    for run_check in module.CHECKS.values():
        _explained(type(part).__name__, lambda run_check=run_check: run_check(case))


def _explained(name: str, play: Callable) -> Any:
    """Return play(), or raise `UserError` with the first line of whatever it raises."""
    try:
        return play()
    except UserError:
        raise
    except Exception as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{name} cannot be played: {line.rstrip('.')} ({type(error).__name__}); see the error above") from error
