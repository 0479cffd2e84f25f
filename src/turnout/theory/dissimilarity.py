"""Measures how much the clients' functions differ and how smooth they are: exactly, at a point, or along a run."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PyTree

from turnout.core.errors import UserError
from turnout.core.seeds import host_key
from turnout.problems.base import Problem
from turnout.problems.derivatives import Derivatives, shapes_of, vector
from turnout.problems.quadratic import Extremes, Quadratic, extremes

MATRICES = 256 * 2**20
"""Bytes up to which all clients' Hessians are kept as matrices."""

TOLERANCE = 1e-9
"""Relative accuracy of a norm found by Lanczos steps."""


class Dissimilarity(NamedTuple):
    """The constants of Cost-aware client selection, section 2.2, with h_i = f - f_i and client 1 the delegate.

    Args:
        delta: sum_i lambda_i |grad h_i(x) - grad h_i(y)|^2 <= delta^2 |x - y|^2 for all x and y.
        delta_one: Delta_1, the Lipschitz constant of grad h_1.
        delta_max: Delta_max, the largest Lipschitz constant of a grad h_i.
        smooth_one: L_1, the Lipschitz constant of grad f_1.
        smooth_max: L_max, the largest Lipschitz constant of a grad f_i.
        smooth_f: L_f, the Lipschitz constant of grad f.
    """

    delta: float
    delta_one: float
    delta_max: float
    smooth_one: float
    smooth_max: float
    smooth_f: float


def measured(problem: Problem, x: PyTree = None, delegate: int = 0) -> Dissimilarity:
    """Return the constants of `problem`: `exact` ones of quadratics, else those `at` x.

    Args:
        problem: The problem.
        x: Parameters; None means the start of seed 0.
        delegate: Id of the delegate.
    """
    if isinstance(problem, Quadratic):
        return exact(problem, delegate)
    with jax.enable_x64(True):
        return at(problem, problem.start(host_key(0)) if x is None else x, delegate)


def average_dissimilarity(problem: Problem, x: PyTree = None) -> float:
    """Return delta alone, which costs far less than all constants: that of quadratics, else that `at` x.

    Args:
        problem: The problem.
        x: Parameters; None means the start of seed 0.
    """
    if isinstance(problem, Quadratic):
        return exact(problem).delta
    with jax.enable_x64(True):
        products, width = _products(problem, problem.start(host_key(0)) if x is None else x)
        return _average(products, width, problem.population.lambdas)


def exact(problem: Quadratic, delegate: int = 0) -> Dissimilarity:
    """Return the constants of quadratics.

    With A = sum_i lambda_i A_i: Delta_i = |A_i - A|, L_i = |A_i|, L_f = |A|, delta^2 = lambda_max(sum_i lambda_i (A_i - A)^2).
    A penalty that all f_i share is in L only, as in `problem.constants()`.

    Args:
        problem: The problem.
        delegate: Id of the delegate.

    Raises:
        UserError: If there is no such client.

    Examples:
        >>> import numpy as np
        >>> import turnout as t
        >>> from turnout.theory.dissimilarity import exact
        >>> exact(t.Quadratic.of(np.array([[1.0], [3.0]]), np.zeros((2, 1)))).delta
        1.0
    """
    check_delegate(problem, delegate)
    matrices, weights = np.asarray(problem.rows[0]), problem.population.lambdas
    mean = np.tensordot(weights, matrices, 1)
    square, gaps = np.zeros_like(mean), []
    for weight, matrix in zip(weights, matrices, strict=True):
        apart = matrix - mean
        square += weight * (np.square(apart) if apart.ndim == 1 else apart @ apart)
        gaps.append(_largest(extremes(apart[None])))
    smooth = problem.constants().smoothness
    return Dissimilarity(
        delta=math.sqrt(_largest(extremes(square[None]))),
        delta_one=gaps[delegate],
        delta_max=max(gaps),
        smooth_one=float(smooth[delegate]),
        smooth_max=float(smooth.max()),
        smooth_f=_largest(problem.curvatures(mean[None])),
    )


def at(problem: Problem, x: PyTree, delegate: int = 0) -> Dissimilarity:
    """Return the constants near x: those of the quadratics with the clients' Hessians H_i at x.

    Hessians of more than MATRICES bytes are not kept. Norms then come from Lanczos steps on products H_i v, about 50 n
    evaluations of f for n clients, and a delta below about 1e-8 L_max is lost in rounding.

    Args:
        problem: The problem.
        x: Parameters.
        delegate: Id of the delegate.

    Raises:
        UserError: If there is no such client.
    """
    check_delegate(problem, delegate)
    with jax.enable_x64(True):
        products, width = _products(problem, x)
        if 8 * problem.clients * width**2 > MATRICES:
            return _by_products(products, width, problem.population.lambdas, delegate)
        hessians = np.stack([products(direction) for direction in np.eye(width)], axis=-1)
    symmetric = (hessians + np.swapaxes(hessians, 1, 2)) / 2
    return exact(Quadratic.of(symmetric, np.zeros((problem.clients, width)), problem.population.weights), delegate)


def along(problem: Problem, points: Sequence[PyTree], delegate: int = 0) -> list[Dissimilarity]:
    """Return the constants of each step along a run: ratios of differences, NaN where x does not move.

    delta^2 = sum_i lambda_i |grad h_i(x^t) - grad h_i(x^{t+1})|^2 / |x^t - x^{t+1}|^2, and so on. None exceeds that of the whole
    space (Cost-aware client selection, figure 3).

    Args:
        problem: The problem.
        points: Parameters x^0, ..., x^T.
        delegate: Id of the delegate.

    Raises:
        UserError: If there are fewer than two points, or there is no such client.
    """
    check_delegate(problem, delegate)
    if len(points) < 2:
        raise UserError(f"constants along a run need two points or more, but got {len(points)}")
    weights = problem.population.lambdas
    with jax.enable_x64(True):
        return [_step(*ends, weights, delegate) for ends in pairwise(gradients_at(problem, points))]


def check_delegate(problem: Problem, delegate: int) -> None:
    """Raise `UserError` if there is no client `delegate`.

    Args:
        problem: The problem.
        delegate: Id of the delegate.
    """
    if not 0 <= delegate < problem.clients:
        raise UserError(f"delegate must be from 0 to {problem.clients - 1}, the clients there are, but it is {delegate}")


class GradientsAt(NamedTuple):
    """x and grad f_i(x) of every client."""

    x: Float[np.ndarray, " d"]
    gradients: Float[np.ndarray, "n d"]


def _step(a: GradientsAt, b: GradientsAt, weights: Float[np.ndarray, " n"], delegate: int) -> Dissimilarity:
    """Return the ratios of differences between two points."""
    moved = float(np.linalg.norm(b.x - a.x)) or np.nan
    changes = (b.gradients - a.gradients) / moved
    mean = weights @ changes
    smooth, gaps = np.linalg.norm(changes, axis=1), np.linalg.norm(changes - mean, axis=1)
    delta = np.sqrt(weights @ np.square(gaps))
    constants = delta, gaps[delegate], gaps.max(), smooth[delegate], smooth.max(), np.linalg.norm(mean)
    return Dissimilarity(*map(float, constants))


def gradients_at(problem: Problem, points: Iterable[PyTree]) -> Iterator[GradientsAt]:
    """Yield every client's gradient at each of `points`, in double precision.

    Args:
        problem: The problem.
        points: Parameters of each point.
    """
    derivatives = Derivatives(problem)
    for point in points:
        x = _vector(problem, point)
        yield GradientsAt(x, derivatives.of_clients(x))


def _products(problem: Problem, point: PyTree) -> tuple[Callable, int]:
    """H_i v_i [n, d] of every client at `point` as a function of v [n, d], or [d] for all alike; and d."""
    derivatives = Derivatives(problem)
    x = _vector(problem, point)
    return lambda v: derivatives.of_clients_along(x, np.broadcast_to(v, (problem.clients, x.size))), x.size


def _vector(problem: Problem, point: PyTree) -> Float[np.ndarray, " d"]:
    """Return the parameters `point` as one vector."""
    shapes = jax.tree.map(np.shape, shapes_of(problem))
    if jax.tree.map(np.shape, point) != shapes:
        raise UserError(f"the parameters of {type(problem).__name__} have the shapes {shapes}: give such a point")
    return vector(point)


def _by_products(products: Callable, width: int, weights: Float[np.ndarray, " n"], delegate: int) -> Dissimilarity:
    """Return the constants, given v -> H_i v_i of every client i."""

    def norm(coefficients):
        """|sum_i c_i H_i|."""
        return _norm(lambda v: coefficients @ products(v), width)

    clients = np.eye(len(weights))
    gaps, smooth = [norm(e - weights) for e in clients], [norm(e) for e in clients]
    return Dissimilarity(
        _average(products, width, weights), gaps[delegate], max(gaps), smooth[delegate], max(smooth), norm(weights)
    )


def _average(products: Callable, width: int, weights: Float[np.ndarray, " n"]) -> float:
    """Return delta, given v -> H_i v_i of every client i."""

    def square(v):
        """sum_i lambda_i (H_i - H)^2 v = sum_i lambda_i H_i w_i for w_i = (H_i - H) v, since sum_i lambda_i w_i = 0."""
        each = products(v)
        return weights @ products(each - weights @ each)

    return math.sqrt(_norm(square, width))


def _norm(product: Callable, width: int) -> float:
    """|A| of a symmetric A, given v -> A v."""
    start = np.random.default_rng(0).normal(size=width)
    first = product(start)
    if width == 1 or not first.any():
        return float(np.linalg.norm(first) / np.linalg.norm(start))
    # Slow to import.
    from scipy.sparse.linalg import LinearOperator, eigsh

    operator = LinearOperator((width, width), matvec=product, dtype=float)
    return float(abs(eigsh(operator, k=1, which="LM", v0=start, tol=TOLERANCE, return_eigenvectors=False)[0]))


def _largest(ends: Extremes) -> float:
    """|A| of one symmetric matrix, from its least and its largest eigenvalue."""
    return float(np.abs(ends).max())
