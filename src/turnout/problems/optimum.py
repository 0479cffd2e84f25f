"""The minimiser of a strongly convex problem, by L-BFGS and then Newton's method."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.core.kept import kept
from turnout.problems.base import Problem
from turnout.problems.derivatives import Derivatives, Vector, shapes_of

TOLERANCE = 1e-12

NEAR = 1e-3
"""The largest distance to the minimiser, relative to its length, that |grad f| divided by the least curvature may promise."""

FEW = 2000
"""Parameters up to which all eigenvalues of a Hessian take about a second at most."""

ROUNDING = 1e-13
"""Curvatures up to this part of the largest one are zero but for rounding."""


class Optimum(NamedTuple):
    """The minimiser of f and its value.

    Args:
        x: x*.
        value: f(x*).
        unique: Whether f is known to have no other minimiser, so that distances to x* have a meaning.
    """

    x: PyTree
    value: float
    unique: bool = True


def solve(problem: Problem, tolerance: float = TOLERANCE) -> Optimum:
    """Return the minimiser of f in double precision, with |grad f(x*)| <= tolerance max(1, |grad f(0)|).

    Args:
        problem: A strongly convex problem.
        tolerance: The relative norm of the gradient to reach.

    Raises:
        UserError: The problem is not known to be convex, its clients are remote, f has no minimiser, or the tolerance is not
            reached.
    """
    if problem.remote:
        raise UserError("clients' own losses have no known minimiser: take other metrics than 'gap' and 'distance'")
    if not problem.strongly_convex:
        raise UserError(f"the optimum of {type(problem).__name__} is not known: take the metric 'value' or 'gradient'")
    value, unique, *x = kept_of(problem, "minimiser", [tolerance], lambda: _content(_solve(problem, tolerance)))
    return Optimum(jax.tree.unflatten(jax.tree.structure(shapes_of(problem)), x), float(value), bool(unique))


def kept_of(problem: Problem, what: str, parts: Sequence[Any], compute: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
    """Return arrays that depend on a problem and `parts` alone, kept from one process to the next.

    Args:
        problem: The problem.
        what: Name of what is computed.
        parts: What determines it beside the problem.
        compute: Computes it.
    """
    # A class of the user's own is not known by its fields.
    if not type(problem).__module__.startswith("turnout."):
        return compute()
    leaves, structure = jax.tree.flatten(problem)
    own = (type(problem).__qualname__, str(structure), *parts, *map(np.asarray, leaves))
    return kept(what, own, ("turnout", "jax", "jaxlib", "scipy"), compute)


def _content(optimum: Optimum) -> list[np.ndarray]:
    return [np.asarray(optimum.value), np.asarray(optimum.unique), *jax.tree.leaves(optimum.x)]


# Where f has no minimum, x becomes too large for its square.
@np.errstate(over="ignore", invalid="ignore")
def _solve(problem: Problem, tolerance: float) -> Optimum:
    """Return the minimiser; see `solve`."""
    # Slow to import, and not needed by all runs.
    from scipy.optimize import minimize

    derivatives = Derivatives(problem)
    start = np.zeros(derivatives.size)
    x = minimize(derivatives.of_f, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
    enough = tolerance * max(1.0, float(np.linalg.norm(derivatives.of_f(start)[1])))
    for _ in range(50):
        value, gradient = derivatives.of_f(x)
        left = float(np.linalg.norm(gradient))
        if left <= enough:
            return Optimum(derivatives.tree(x), value, _unique(problem, derivatives, x, left))
        x = x - _newton_step(derivatives, x, gradient, enough)
    raise UserError(
        f"the optimum was not found: |grad f| stays at {left:.1e}, above {enough:.1e}; raise mu, or normalize the features"
    )


def _unique(problem: Problem, derivatives: Derivatives, x: Vector, left: float) -> bool:
    """Return whether x, where |grad f| is `left`, is known to be near to the only minimiser; `UserError` at a saddle point."""
    mu = getattr(problem, "mu", None)
    if mu is not None and mu > 0:
        return True
    if not derivatives.small or x.size > FEW:
        # The class says so, unless a regulariser without weight takes it back.
        return mu is None
    curvatures = np.linalg.eigvalsh(derivatives.second(x)[1])
    zero = ROUNDING * np.abs(curvatures).max()
    if curvatures[0] < -zero:
        raise UserError(f"f has no minimum: its least curvature is {curvatures[0]:.1e}; take the metric 'value' or 'gradient'")
    return bool(curvatures[0] > zero and left <= NEAR * curvatures[0] * max(1.0, np.linalg.norm(x)))


def _newton_step(derivatives: Derivatives, x: Vector, gradient: Vector, enough: float) -> Vector:
    """Return H^-1 grad f, H being the Hessian at x: as exact as squaring |grad f| needs, and no more exact than `enough`."""
    if derivatives.small:
        hessian = derivatives.second(x)[1]
        try:
            return np.linalg.solve(hessian, gradient)
        except np.linalg.LinAlgError:
            return np.linalg.lstsq(hessian, gradient)[0]
    from scipy.sparse.linalg import LinearOperator, cg

    hessian = LinearOperator((x.size, x.size), matvec=lambda v: derivatives.along(x, v), dtype=float)
    left = float(np.linalg.norm(gradient))
    return cg(hessian, gradient, rtol=min(0.1, left), atol=enough / 2, maxiter=20 * x.size)[0]
