"""How good a sampler's draws are, judged by all clients' replies: computed apart, and counted nowhere."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from turnout.core.tree import positive
from turnout.problems.base import Population
from turnout.samplers.base import Sampler
from turnout.samplers.probabilities.waterfilling import capped

NAMES = ("variance", "regret", "static_regret")


class Quality(NamedTuple):
    """Sums over the draws so far of pi_i^2 [n], of the losses and of their least values, and of the variance since the last row.

    pi_i counts as pi_i / q_i, and only where the client is available, which it is with chance q_i. `size` is the largest expected
    number of clients in a draw.
    """

    squares: Float[Array, " n"]
    loss: Float[Array, ""]
    least: Float[Array, ""]
    variance: Float[Array, ""]
    draws: Int[Array, ""]
    size: Float[Array, ""]


def unjudged(population: Population) -> Quality:
    """Return the quality before the first draw."""
    zero = jnp.zeros((), jnp.result_type(float))
    return Quality(jnp.zeros(population.count, zero.dtype), zero, zero, zero, jnp.zeros((), "int32"), zero)


def judge(quality: Quality, sampler: Sampler, state, population: Population, replies: Float[Array, "n d"]) -> Quality:
    """Add one draw made in the sampler's `state`: pi_i = lambda_i |r_i| with all clients' `replies` r_i.

    Its loss is l(p) = sum_i pi_i^2 / p_i with p_i the expected number of times that client i is drawn (K-Vib, section 3); where
    clients are available by chance, it is over those who are, each pi_i being pi_i / q_i (appendix E.1, given who is available).
    """
    vectors = population.shares[:, None].astype(replies.dtype) * replies
    squares = jnp.sum(vectors**2, axis=1)
    p = sampler.expected_draws(state, population)
    size = jnp.sum(p)
    seen = sampler.with_availability(state, population)
    if seen.available is not None:
        squares = jnp.where(seen.available, squares / seen.presence.astype(squares.dtype) ** 2, 0)
    return Quality(
        quality.squares + squares,
        quality.loss + loss(squares, p),
        quality.least + least(sampler, squares, size),
        quality.variance + sampler.variance(state, population, vectors),
        quality.draws + 1,
        jnp.maximum(quality.size, size),
    )


def since_row(quality: Quality) -> Quality:
    """Return the quality after a row was written."""
    return quality._replace(variance=jnp.zeros_like(quality.variance), draws=jnp.zeros_like(quality.draws))


def shown(quality: Quality, sampler: Sampler) -> dict[str, Float[Array, ""]]:
    """Return the mean variance since the last row, and the dynamic and the static regret so far."""
    return {
        "variance": quality.variance / jnp.maximum(quality.draws, 1).astype(quality.variance.dtype),
        "regret": quality.loss - quality.least,
        "static_regret": quality.loss - least(sampler, quality.squares, quality.size),
    }


def loss(squares: Float[Array, " n"], p: Float[Array, " n"]) -> Float[Array, ""]:
    """l(p) = sum_i pi_i^2 / p_i over those with p_i > 0."""
    return jnp.sum(jnp.where(p > 0, squares / positive(p), 0))


def least(sampler: Sampler, squares: Float[Array, " n"], size: Float[Array, ""]) -> Float[Array, ""]:
    """Return the least l over what the sampler's design allows: sum p = K, and p_i <= 1 unless it draws with replacement.

    With replacement that is (sum_i pi_i)^2 / K.
    """
    norms = jnp.sqrt(squares)
    if sampler.replacement == "with":
        return jnp.sum(norms) ** 2 / positive(size)
    return loss(squares, capped(norms, size))
