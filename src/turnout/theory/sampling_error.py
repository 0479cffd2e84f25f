"""How near to x* cohorts can bring anyone, however well they are asked: their sampling error."""

from collections.abc import Iterable
from functools import singledispatch

import numpy as np
from jaxtyping import Float

from turnout.problems.at_optimum import AtOptimum, at_optimum
from turnout.problems.base import Population, Problem
from turnout.samplers import Sampler, ShuffledNice, ShuffledStratified
from turnout.theory.designs import Staged, client_weights, design, variance


def sampling_floor(problem: Problem, sampler: Sampler, cohorts: Iterable[int], at: AtOptimum | None = None) -> list[float] | None:
    """E|H^-1 (1/m) sum_{k <= m} grad f_{S_k}(x*)|^2 for each m of `cohorts`, H being the Hessian of f at x*.

    This is E|x - x*|^2, to first order, of the mean x of the minimisers of m cohorts that `sampler`, a bound one, draws in turn.
    None where the Hessian is too large to invert.
    """
    at = at_optimum(problem) if at is None else at
    if at.hessian is None:
        return None
    steps = np.linalg.solve(at.hessian, at.gradients.T).T
    return [mean_variance(sampler, problem.population, steps, m) for m in cohorts]


@singledispatch
def mean_variance(sampler: Sampler, population: Population, vectors: Float[np.ndarray, "n d"], cohorts: int) -> float:
    """E|(1/m) sum_{k <= m} v_{S_k}|^2, v_S = sum_{i in S} lambda_i v_i / p_i, for m = `cohorts` draws and sum_i lambda_i v_i = 0.

    `variance` / m where the draws are independent.
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
    law = design(sampler, population)
    assert isinstance(law, Staged)
    deviations = law.deviations(client_weights(population)[:, None] * vectors)
    rest = cohorts % law.sizes
    errors = law.sizes * rest * (law.sizes - rest) / np.maximum(law.sizes - 1, 1)
    return float(errors[law.stratum] @ deviations) / cohorts**2
