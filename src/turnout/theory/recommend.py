"""Which sampler suits a federation: by the clients' weights, the cohorts' size, the rounds, and the memory allowed."""

from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.problems.base import Population
from turnout.samplers import Sampler
from turnout.samplers.probabilities.waterfilling import capped
from turnout.theory.designs import design

Memory = Literal["none", "scalars", "vectors"]
"""What may be kept of each client between rounds: nothing, one number at the server, or a vector there or at the client."""

RETURNS = 2
"""Expected visits of the median client from which what is kept of each client pays: before, most are seen once at most."""

UNEVEN = 1.05
"""From this ratio of variances on, unequal probabilities are worth having."""


@dataclass(frozen=True)
class Advice:
    """The sampler that is recommended, why, and the numbers that the choice rests on.

    `gain` is the variance of uniform independent draws over that of draws with p_i ~ lambda_i, if all |r_i| are equal; `visits`
    is how often the median client is expected to take part with the latter.
    """

    sampler: str
    reason: str
    gain: float
    visits: float


def advise(population: Population, size: float, rounds: int, memory: Memory = "vectors") -> Advice:
    """Return the advice for cohorts of `size` = K expected clients and `rounds` = T rounds.

    With equal |r_i| = 1 the variance of independent draws is sum_i (1 - p_i) / p_i lambda_i^2, least for
    p_i = min(1, lambda_i / nu) (K-Vib, equation (10)); what more a learning sampler gains depends on norms that nobody knows
    beforehand.
    """
    n = population.count
    weights = np.full(n, 1 / n) if population.weights is None else np.asarray(population.weights, float)
    p = np.asarray(capped(jnp.asarray(weights), jnp.asarray(min(size, n), float)), float)
    uniform, unequal = variance(np.full(n, min(1.0, size / n)), weights), variance(p, weights)
    gain = uniform / unequal if unequal > 0 else 1.0 if uniform == 0 else np.inf
    visits = float(np.median(rounds * p))
    return Advice(*_choice(gain, visits, memory, size >= n), float(gain), visits)


def expected_size(sampler: Sampler, population: Population) -> float:
    """Return the expected number of clients in a cohort of the bound `sampler`."""
    try:
        return float(np.sum(sampler.expected_draws(sampler.start(population), population)))
    except UserError:
        return float(design(sampler, population).inclusion().sum())


def variance(p: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> float:
    """sum_i (1 - p_i) / p_i lambda_i^2: the variance of sum_{i in S} lambda_i r_i / p_i with |r_i| = 1 and independent coins."""
    held = weights > 0
    return float(np.sum((1 - p[held]) / p[held] * weights[held] ** 2))


def _choice(gain: float, visits: float, memory: Memory, everybody: bool) -> tuple[str, str]:
    if everybody:
        return "full", "a cohort holds all clients"
    if memory == "vectors" and visits >= RETURNS:
        return (
            "drift",
            f"the median client returns {visits:.3g} times, and with fedvarp only what is new since then is left to chance",
        )
    if memory == "scalars" and visits >= RETURNS:
        return "last-norm", f"the median client returns {visits:.3g} times, often enough to know the norms of the replies"
    rare = f"the median client returns {visits:.3g} times, too rarely to learn from"
    memoryless = "nothing may be kept" if memory == "none" else rare
    if gain >= UNEVEN:
        return "size", f"{memoryless}, but the clients' weights differ, and are known"
    return "uniform", f"{memoryless}, and the clients' weights hardly differ"
