"""The expected weight of each client in the mean over a cohort."""

import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.problems.base import Population
from turnout.samplers import Sampler
from turnout.theory.designs import Coins, Inside, Listed, Repeated, Staged, design

NODES = 256
"""Points of the quadrature rule for independent coins, exact for fewer than twice as many clients."""


def cohort_mean_weights(sampler: Sampler, population: Population) -> Float[np.ndarray, " n"]:
    """Return q_i = E[1{i in S} / |S|] [n], which sum to the probability that S is not empty.

    With unequal client weights q_i = E[lambda_i 1{i in S} / sum_{j in S} lambda_j], as `Replies.mean` weights. This is known for
    designs that list their cohorts and for full participation.

    Args:
        sampler: Bound sampler.
        population: The clients.

    Raises:
        UserError: If q_i has no closed form here.
    """
    drawn, weights = design(sampler, population), population.lambdas
    if isinstance(drawn, Listed):
        mass = drawn.members @ weights
        return weights * (np.divide(drawn.probability, mass, out=np.zeros_like(mass), where=mass > 0) @ drawn.members)
    if isinstance(drawn, Repeated):
        raise UserError("Theorem 2 is about clients drawn at most once: take a sampler without replacement")
    if isinstance(drawn, Staged) and drawn.drawn == population.count:
        return weights
    if population.weights is not None:
        raise UserError("Theorem 2 is about clients of equal weight: take weights = 'uniform'")
    if isinstance(drawn, Inside):
        return drawn.inclusion() / np.minimum(drawn.size, drawn.blocks.sizes)[drawn.blocks.stratum]
    return drawn.inclusion() / drawn.drawn if isinstance(drawn, Staged) else _of_coins(drawn)


def _of_coins(coins: Coins) -> Float[np.ndarray, " n"]:
    """q_i = p_i E[1 / (1 + |S without i|)] = p_i integral_0^1 prod_{j != i} (1 - p_j + p_j u) du."""
    p = np.asarray(coins.probability)
    u, weights = np.polynomial.legendre.leggauss(min(p.size // 2 + 1, NODES))
    factors = np.log1p(p[None] * ((u[:, None] - 1) / 2))
    others = np.exp(factors.sum(axis=1, keepdims=True) - factors)
    return p * (weights / 2 @ others)
