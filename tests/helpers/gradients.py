"""Gradients and Hessians of quadratics and of logistic regression in NumPy."""

import numpy as np

import turnout as t


def gradient(problem: t.Problem, x) -> np.ndarray:
    """The gradient of f at x."""
    weights = problem.population.weights
    weights = np.full(problem.clients, 1 / problem.clients) if weights is None else weights
    return sum(weight * client_gradient(problem, i, x) for i, weight in enumerate(weights))


def client_gradient(problem: t.Problem, i: int, x) -> np.ndarray:
    """The gradient of f_i at x."""
    own = slice(problem.offsets[i], problem.offsets[i + 1])
    features, targets = (part[own] for part in problem.rows)
    if isinstance(problem, t.Quadratic):
        return features[0] @ x - targets[0]
    slopes = -targets / (1 + np.exp(targets * (features @ x)))
    return features.T @ slopes / len(targets) + problem.mu * x


def client_hessian(problem: t.Problem, i: int, x) -> np.ndarray:
    """The Hessian of f_i at x."""
    own = slice(problem.offsets[i], problem.offsets[i + 1])
    features, targets = (part[own] for part in problem.rows)
    if isinstance(problem, t.Quadratic):
        return np.asarray(features[0])
    chance = 1 / (1 + np.exp(-(features @ x)))
    return (features.T * (chance * (1 - chance))) @ features / len(targets) + problem.mu * np.eye(features.shape[1])


def client_value(problem: t.Problem, i: int, x) -> float:
    """f_i(x)."""
    own = slice(problem.offsets[i], problem.offsets[i + 1])
    features, targets = (part[own] for part in problem.rows)
    if isinstance(problem, t.Quadratic):
        return float(x @ features[0] @ x / 2 - targets[0] @ x)
    return float(np.mean(np.logaddexp(0, -targets * (features @ x))) + problem.mu / 2 * x @ x)
