"""Recommends a sampler, by the clients' weights, the cohort size, the rounds, and the memory allowed."""

from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.problems.base import Population
from turnout.samplers import Sampler
from turnout.samplers.probabilities.waterfilling import capped
from turnout.theory.designs import client_weights, design

Memory = Literal["none", "scalars", "vectors"]
"""Memory of each client between rounds: none, one number at the server, or a vector there or at the client."""

RETURNS = 2
"""Expected participations of the median client from which storing information about clients pays."""

UNEVEN = 1.05
"""Ratio of variances from which unequal probabilities pay."""


@dataclass(frozen=True)
class Advice:
    """A recommended sampler.

    Args:
        sampler: Its name.
        reason: Why.
        gain: The variance of uniform independent draws over that of draws with p_i ~ lambda_i, if all |r_i| are equal.
        visits: Expected participations of the median client with the latter.
    """

    sampler: str
    reason: str
    gain: float
    visits: float


def advise(population: Population, size: float, rounds: int, memory: Memory = "vectors") -> Advice:
    """Return the recommended sampler for a federation.

    With equal |r_i| = 1 the variance of independent draws is sum_i (1 - p_i) / p_i lambda_i^2, which is least for
    p_i = min(1, lambda_i / nu) (K-Vib, equation (10)). The further gain of an adaptive sampler depends on norms that are not
    known in advance.

    Args:
        population: The clients.
        size: Expected number of clients in a cohort.
        rounds: Number of rounds.
        memory: What the server may store of each client between rounds.

    Examples:
        >>> import turnout as t
        >>> from turnout.theory.recommend import advise
        >>> advise(t.Population(count=100), size=10, rounds=5).sampler
        'uniform'
    """
    n, weights = population.count, client_weights(population)
    p = np.asarray(capped(jnp.asarray(weights), jnp.asarray(min(size, n), float)), float)
    uniform, unequal = variance(np.full(n, min(1.0, size / n)), weights), variance(p, weights)
    gain = uniform / unequal if unequal > 0 else 1.0 if uniform == 0 else np.inf
    visits = float(np.median(rounds * p))
    return Advice(*_choice(gain, visits, memory, size >= n), float(gain), visits)


def expected_size(sampler: Sampler, population: Population) -> float:
    """Return the expected number of clients in a cohort of the bound `sampler`.

    Args:
        sampler: The sampler, bound to the clients.
        population: The clients.
    """
    try:
        return float(np.sum(sampler.expected_draws(sampler.start(population), population)))
    except UserError:
        return float(design(sampler, population).inclusion().sum())


def variance(p: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> float:
    """Return sum_i (1 - p_i) / p_i lambda_i^2, the variance of sum_{i in S} lambda_i r_i / p_i for |r_i| = 1.

    Args:
        p: Inclusion probabilities p_i [n].
        weights: Client weights lambda_i [n].
    """
    p, weights = p[weights > 0], weights[weights > 0]
    return float(np.sum((1 - p) / p * weights**2))


def _choice(gain: float, visits: float, memory: Memory, everybody: bool) -> tuple[str, str]:
    if everybody:
        return "full", "a cohort has all clients"
    if memory == "vectors" and visits >= RETURNS:
        return (
            "drift",
            f"the median client takes part {visits:.3g} times, and fedvarp with drift samples only the changes of its replies",
        )
    if memory == "scalars" and visits >= RETURNS:
        return "last-norm", f"the median client takes part {visits:.3g} times, often enough to learn the norms of its replies"
    rare = f"the median client takes part {visits:.3g} times, which is too rare for learning"
    memoryless = "the server may store nothing" if memory == "none" else rare
    if gain >= UNEVEN:
        return "size", f"{memoryless}, but the clients' weights differ"
    return "uniform", f"{memoryless}, and the clients' weights hardly differ"
