"""The sampling error of cohorts: the distance to x* of the minimisers of their functions."""

from collections.abc import Iterable
from functools import singledispatch

import numpy as np
from jaxtyping import Float

from turnout.problems.at_optimum import AtOptimum, at_optimum
from turnout.problems.base import Population, Problem
from turnout.samplers import Sampler, ShuffledNice, ShuffledStratified
from turnout.theory.designs import Staged, design, variance


def sampling_floor(problem: Problem, sampler: Sampler, cohorts: Iterable[int], at: AtOptimum | None = None) -> list[float] | None:
    """Return E|H^-1 (1/m) sum_{k <= m} grad f_{S_k}(x*)|^2 for each m of `cohorts`, H being the Hessian of f at x*.

    To first order this is E|x - x*|^2 of the mean x of the minimisers of m cohorts drawn in turn. It is None where the Hessian is
    too large to invert.

    Args:
        problem: The problem.
        sampler: Sampler that is bound to it.
        cohorts: Numbers m of cohorts.
        at: What is known at the minimiser; None finds it.

    Examples:
        >>> import turnout as t
        >>> from turnout.theory.sampling_error import sampling_floor
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> one, two = sampling_floor(problem, t.Nice(2), (1, 2))
        >>> round(one / two, 6)
        2.0
    """
    at = at_optimum(problem) if at is None else at
    if at.hessian is None:
        return None
    steps = np.linalg.solve(at.hessian, at.gradients.T).T
    return [mean_variance(sampler, problem.population, steps, m) for m in cohorts]


@singledispatch
def mean_variance(sampler: Sampler, population: Population, vectors: Float[np.ndarray, "n d"], cohorts: int) -> float:
    """Return E|(1/m) sum_{k <= m} v_{S_k}|^2, v_S = sum_{i in S} lambda_i v_i / p_i, for m = `cohorts` draws.

    sum_i lambda_i v_i = 0. For independent draws it is `variance` / m.

    Args:
        sampler: The sampler, bound to the clients.
        population: The clients.
        vectors: v_i [n, d].
        cohorts: m, the number of cohorts.
    """
    return variance(sampler, population, vectors) / cohorts


@mean_variance.register
def _(sampler: ShuffledNice, population, vectors, cohorts):
    """r cohorts of one epoch are a uniform subset of r size clients, and different epochs are independent."""
    n, size = population.count, sampler.size
    if size == n:
        return 0.0
    epochs, rest = divmod(cohorts, n // size)
    sizes = np.array([n // size * size] * epochs + [rest * size])
    return variance(sampler, population, vectors) * float(np.sum(sizes * (n - sizes))) / (size * (n - size) * cohorts**2)


@mean_variance.register
def _(sampler: ShuffledStratified, population, vectors, cohorts):
    """Whole epochs of a stratum leave no error; r of its M clients leave r (M - r) / (M - 1) times that of one."""
    strata = design(sampler, population)
    assert isinstance(strata, Staged)
    deviations = strata.deviations(population.lambdas[:, None] * vectors)
    rest = cohorts % strata.sizes
    errors = strata.sizes * rest * (strata.sizes - rest) / np.maximum(strata.sizes - 1, 1)
    return float(errors[strata.stratum] @ deviations) / cohorts**2
