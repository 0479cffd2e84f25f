"""Metrics of a sampler's draws, the variance and the regret, from all clients' replies; the ledger does not count them."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from turnout.core.tree import positive
from turnout.problems.base import Population
from turnout.samplers.base import Sampler
from turnout.samplers.probabilities.waterfilling import capped

NAMES = ("variance", "regret", "static_regret")


class Quality(NamedTuple):
    """Sums over the draws so far.

    Args:
        squares: Sum of pi_i^2 [n], of (pi_i / q_i)^2 where client i is available, if it is with probability q_i.
        loss: Sum of the losses l(p) of the draws.
        least: Sum of the least possible losses of the draws.
        variance: Sum of the variances since the last row.
        draws: Number of draws since the last row.
        size: Largest expected number of clients in a draw.
    """

    squares: Float[Array, " n"]
    loss: Float[Array, ""]
    least: Float[Array, ""]
    variance: Float[Array, ""]
    draws: Int[Array, ""]
    size: Float[Array, ""]


def unjudged(population: Population) -> Quality:
    """Return the sums before the first draw."""
    zero = jnp.zeros((), jnp.result_type(float))
    return Quality(jnp.zeros(population.count, zero.dtype), zero, zero, zero, jnp.zeros((), "int32"), zero)


def judge(quality: Quality, sampler: Sampler, state, population: Population, replies: Float[Array, "n d"]) -> Quality:
    """Add one draw made in the sampler's `state`, given all clients' `replies` r_i.

    Its loss is l(p) = sum_i pi_i^2 / p_i with pi_i = lambda_i |r_i| and p_i the expected number of draws of client i (K-Vib, Zeng
    et al., 2023, section 3). If clients are available with probability q_i, the sum is over the available ones with pi_i / q_i
    (appendix E.1).

    Args:
        quality: Quality of the draws so far.
        sampler: The sampler.
        state: State of the sampler before the draw.
        population: The clients, their weights, and who is available.
        replies: r_i of all clients [n, d].
    """
    vectors = population.shares[:, None].astype(replies.dtype) * replies
    squares = jnp.sum(vectors**2, axis=1)
    p = sampler.expected_draws(state, population)
    size = jnp.sum(p)
    current = sampler.with_availability(state, population)
    if current.available is not None:
        squares = jnp.where(current.available, squares / current.presence.astype(squares.dtype) ** 2, 0)
    return Quality(
        quality.squares + squares,
        quality.loss + loss(squares, p),
        quality.least + least(sampler, squares, size),
        quality.variance + sampler.variance(state, population, vectors),
        quality.draws + 1,
        jnp.maximum(quality.size, size),
    )


def since_row(quality: Quality) -> Quality:
    """Return the sums after a row of the trace was written."""
    return quality._replace(variance=jnp.zeros_like(quality.variance), draws=jnp.zeros_like(quality.draws))


def shown(quality: Quality, sampler: Sampler) -> dict[str, Float[Array, ""]]:
    """Return the mean variance since the last row, and the dynamic and the static regret so far.

    Args:
        quality: Quality of the draws so far.
        sampler: The sampler.
    """
    return {
        "variance": quality.variance / jnp.maximum(quality.draws, 1).astype(quality.variance.dtype),
        "regret": quality.loss - quality.least,
        "static_regret": quality.loss - least(sampler, quality.squares, quality.size),
    }


def loss(squares: Float[Array, " n"], p: Float[Array, " n"]) -> Float[Array, ""]:
    """Return l(p) = sum_i pi_i^2 / p_i over the clients with p_i > 0.

    Args:
        squares: pi_i^2 [n].
        p: p_i [n].
    """
    return jnp.sum(jnp.where(p > 0, squares / positive(p), 0))


def least(sampler: Sampler, squares: Float[Array, " n"], size: Float[Array, ""]) -> Float[Array, ""]:
    """Return the least l(p) over sum p = K and, without replacement, p_i <= 1; with replacement it is (sum_i pi_i)^2 / K.

    Args:
        sampler: The sampler.
        squares: pi_i^2 [n].
        size: K.
    """
    norms = jnp.sqrt(squares)
    if sampler.replacement == "with":
        return jnp.sum(norms) ** 2 / positive(size)
    return loss(squares, capped(norms, size))
