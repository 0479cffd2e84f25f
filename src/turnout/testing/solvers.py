"""Checks of a cohort solver: the proximal point that it finds, and all that an algorithm owes."""

from collections.abc import Callable
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from turnout.algorithms import Sppm
from turnout.core.cohort import Cohort
from turnout.core.records import record
from turnout.problems.base import Problem
from turnout.problems.row_formats import take
from turnout.runs.setup import scope
from turnout.samplers import Nice, Sampler
from turnout.solvers import CohortSolver
from turnout.testing import algorithms
from turnout.testing.case import SEED, Case

STEPS = 60
"""Steps that the solver has for one proximal point."""

PROBABILITY = 0.4
"""The inclusion probability that the cohort of half of the clients declares, so that sum, mean and average are three points."""

NEAR = 0.1
"""How far the solver may end from the proximal point, relative to the way from the centre to it."""


@record
class Half(Sampler):
    """Always the clients 0, ..., n / 2 - 1, who count for 1 / `PROBABILITY` each."""

    def draw(self, state, key, population):
        ids = jnp.arange(max(1, population.count // 2), dtype="int32")
        return Cohort.of(ids, PROBABILITY, population, selection="random")


class SolverCase(Case):
    """A cohort solver within the stochastic proximal point method, and the proximal point of its first cohort."""

    def __init__(self, solver: CohortSolver, problem: Problem):
        gamma = 1.0 if problem.constants() is None else 1 / float(np.max(problem.constants().smoothness))
        super().__init__(Sppm(Nice(max(1, problem.clients // 2)), solver, gamma=gamma, inner=2), problem, type(solver).__name__)
        self.solver, self.gamma = solver, gamma

    @cached_property
    def centre(self) -> Float[np.ndarray, " d"]:
        """The point x whose proximal point is looked for."""
        return np.asarray(ravel_pytree(self.start)[0], float)

    @cached_property
    def found(self) -> Float[np.ndarray, " d"]:
        """The point that the solver finds in `STEPS` steps."""
        algorithm = Sppm(Half(), self.solver, gamma=self.gamma, inner=STEPS)
        return np.asarray(ravel_pytree(self.run(algorithm, rounds=1).x)[0])

    @cached_property
    def proximal(self) -> tuple[Callable, Float[np.ndarray, " d"]]:
        """phi(y) = sum_{i in S} (lambda_i / p_i) f_i(y) + |y - x|^2 / (2 gamma) of `Half`, and its minimiser by SciPy."""
        # Slow to import.
        from scipy.optimize import minimize

        problem, m = self.problem, max(1, self.problem.clients // 2)
        rows = take(problem.rows, np.arange(problem.offsets[m]))
        share = problem.row_share[: problem.offsets[m]] / PROBABILITY
        weight = share.sum()

        def phi(y: Float[Array, " d"]):
            x = unravel(y)
            value = jnp.asarray(share) @ problem.losses(x, rows) + weight * problem.regulariser(x)
            return value + jnp.sum((y - self.centre) ** 2) / (2 * self.gamma)

        oracle = jax.jit(jax.value_and_grad(phi))

        def on_host(y):
            with scope("double"):
                value, gradient = oracle(jnp.asarray(y))
                return float(value), np.asarray(gradient)

        with scope("double"):
            unravel = ravel_pytree(problem.start(jax.random.key(SEED)))[1]
        options = {"maxiter": 2000, "ftol": 0, "gtol": 1e-10}
        return lambda y: on_host(y)[0], minimize(on_host, self.centre, jac=True, method="L-BFGS-B", options=options).x


def objective_falls(case: SolverCase) -> None:
    """The solver's point has a smaller phi than the centre that the search starts from."""
    phi, _ = case.proximal
    before, after = phi(case.centre), phi(case.found)
    if not after < before:
        case.fail(f"raises the proximal objective from {before:.6g} to {after:.6g} in {STEPS} steps: lower its step size")


def proximal_point_is_reached(case: SolverCase) -> None:
    """Enough steps lead to the proximal point of the cohort, which SciPy finds by itself, where the solver `certifies` errors.

    The clients of the cohort count for lambda_i / p_i, as in `replies.average()`; with `total()` or `mean()` the search ends
    elsewhere, and no error says so.
    """
    if not case.solver.certifies:
        return
    _, best = case.proximal
    left = np.linalg.norm(case.found - best) / max(np.linalg.norm(case.centre - best), 1e-12)
    if not left <= NEAR:
        case.fail(
            f"ends {left:.0%} of the way from its cohort's proximal point after {STEPS} steps: sum replies by average(), not "
            "total() or mean(), and add the gradient of the quadratic term"
        )


CHECKS: dict[str, Callable[[SolverCase], None]] = {
    "states_keep_their_types": algorithms.states_keep_their_types,
    "objective_falls": objective_falls,
    "proximal_point_is_reached": proximal_point_is_reached,
    "engines_agree": algorithms.engines_agree,
    "ledger_counts_what_nodes_send": algorithms.ledger_counts_what_nodes_send,
    "compiles_once": algorithms.compiles_once,
    "resumes_to_the_bit": algorithms.resumes_to_the_bit,
    "goes_on_to_the_bit": algorithms.goes_on_to_the_bit,
}
"""The checks of a cohort solver by name."""


def case(solver: CohortSolver, problem: Problem) -> SolverCase:
    """Return what the checks of a cohort solver are given.

    Args:
        solver: The cohort solver, with its hyper-parameters.
        problem: A problem with a few clients and unknowns.
    """
    return SolverCase(solver, problem)
