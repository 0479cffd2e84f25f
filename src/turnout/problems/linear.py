"""What the problems with a linear model share: features as rows, dense or sparse, and their largest eigenvalues."""

import numpy as np
from scipy.sparse import hstack

from turnout.core.errors import UserError
from turnout.problems.base import Population, Problem
from turnout.problems.row_formats import compact, plain


def federate(dataset, split, targets: np.ndarray, weights: np.ndarray | None) -> dict:
    """Return the `rows` (features, targets), `offsets` and `population` of `dataset` cut by `split`.

    `weights` lambda [n] are scaled to sum to one; None means uniform.
    """
    if weights is not None:
        weights = np.asarray(weights, float)
        if weights.shape != (split.clients,) or not np.all(np.isfinite(weights)) or not np.all(weights >= 0):
            raise UserError(f"client weights must be {split.clients} finite numbers, none negative")
        weights = weights / weights.sum()
    features = dataset.features[split.indices]
    if not isinstance(features, np.ndarray):
        features = compact(features)
    return {
        "rows": (features, targets[split.indices]),
        "offsets": split.offsets,
        "population": Population(count=split.clients, weights=weights, strata=split.strata),
    }


def top_eigenvalues(problem: Problem, intercept: bool = False) -> np.ndarray:
    """Return lambda_max(A_i^T A_i) / n_i for each client's features A_i [n_i, d], with `intercept` after a column of ones."""
    offsets = problem.offsets.tolist()
    bounds = zip(offsets, offsets[1:], strict=False)
    features = ((plain(problem.rows[0], a, b), b - a) for a, b in bounds)
    return np.array([_top(_with_ones(rows) if intercept else rows) / size for rows, size in features])


def _with_ones(a):
    ones = np.ones((a.shape[0], 1))
    return np.hstack([a, ones]) if isinstance(a, np.ndarray) else hstack([a, ones], format="csr")


def _top(a) -> float:
    if min(a.shape) <= 500:
        gram = a.T @ a if a.shape[1] < a.shape[0] else a @ a.T
        gram = gram if isinstance(gram, np.ndarray) else gram.toarray()
        return float(np.linalg.eigvalsh(gram)[-1])
    # Slow to import.
    from scipy.sparse.linalg import LinearOperator, eigsh

    gram = LinearOperator((a.shape[1], a.shape[1]), matvec=lambda v: a.T @ (a @ v), dtype=float)
    return float(eigsh(gram, k=1, return_eigenvectors=False, v0=np.ones(a.shape[1]))[0])
