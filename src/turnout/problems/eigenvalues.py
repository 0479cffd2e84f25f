"""Largest eigenvalues of the clients' Gram matrices, which bound the smoothness of linear models."""

import jax
import numpy as np

from turnout.core.kept import kept
from turnout.problems.base import Problem
from turnout.problems.row_formats import plain


def top_eigenvalues(problem: Problem, intercept: bool = False) -> np.ndarray:
    """Return lambda_max(A_i^T A_i) / n_i [n] for the features A_i [n_i, d], with a column of ones appended if `intercept`.

    Args:
        problem: A problem with rows (features, labels).
        intercept: Whether to append a column of ones.
    """
    # Every run asks for these, most of them several times, and they take as long as many rounds.
    known = vars(problem).setdefault("_top_eigenvalues", {})
    if intercept not in known:
        leaves = jax.tree.leaves(problem.rows[0])
        if all(isinstance(leaf, np.ndarray) for leaf in leaves):
            parts = (*leaves, problem.rows[0].shape, np.asarray(problem.offsets), intercept)
            (known[intercept],) = kept("eigenvalues", parts, ("numpy", "scipy"), lambda: [_top_eigenvalues(problem, intercept)])
        else:
            known[intercept] = _top_eigenvalues(problem, intercept)
    return known[intercept]


def _top_eigenvalues(problem: Problem, intercept: bool) -> np.ndarray:
    """Return what `top_eigenvalues` does."""
    offsets = problem.offsets.tolist()
    bounds = zip(offsets, offsets[1:], strict=False)
    features = ((plain(problem.rows[0], a, b), b - a) for a, b in bounds)
    return np.array([_top(_with_ones(rows) if intercept else rows) / size for rows, size in features])


def _with_ones(a):
    ones = np.ones((a.shape[0], 1))
    if isinstance(a, np.ndarray):
        return np.hstack([a, ones])
    from scipy.sparse import hstack

    return hstack([a, ones], format="csr")


def _top(a) -> float:
    if min(a.shape) <= 500:
        gram = a.T @ a if a.shape[1] < a.shape[0] else a @ a.T
        gram = gram if isinstance(gram, np.ndarray) else gram.toarray()
        return float(np.linalg.eigvalsh(gram)[-1])
    # Slow to import.
    from scipy.sparse.linalg import LinearOperator, eigsh

    gram = LinearOperator((a.shape[1], a.shape[1]), matvec=lambda v: a.T @ (a @ v), dtype=float)
    return float(eigsh(gram, k=1, return_eigenvectors=False, v0=np.ones(a.shape[1]))[0])
