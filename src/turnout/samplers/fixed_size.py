"""What designs share whose cohorts have exactly K clients, drawn with given inclusion probabilities."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import Count, Fraction, record, static
from turnout.core.tree import positive
from turnout.problems.base import Population
from turnout.samplers.probabilities import Probability
from turnout.samplers.probabilities.waterfilling import capped
from turnout.samplers.weighted import Weighted


@record
class FixedSize(Weighted):
    """Exactly `size` = K clients, client i with probability p_i, sum p = K; everybody where fewer than K are available.

    `probability` is a rule for p_i, or p_i itself [n]; of these, where not all clients are available, the available ones are
    scaled, and capped at 1, to sum to K. A subclass writes `select`.
    """

    size: Count = static()
    probability: Any | Probability | list[Fraction] = None

    name: ClassVar[str] = "fixed-size"

    def expected_draws(self, state, population):
        p = super().expected_draws(state, population)
        if isinstance(self.probability, Probability) or population.available is None:
            return p
        return capped(p, jnp.asarray(self.size, p.dtype), population.available)

    def select(self, key, p: Float[Array, " n"], population: Population) -> Float[Array, " n"]:
        """Return 1 for K clients and 0 for the others, each up to rounding, with mean `p`."""
        raise UserError(f"{type(self).__name__} has no select(self, key, p, population): write one")

    def draw(self, state, key, population):
        p = self.expected_draws(state, population)
        chosen = self.select(key, p, population)
        # Rounding can neither leave out who is certain to come, nor bring in who cannot, nor change the size.
        _, ids = lax.top_k(jnp.where(p >= 1, 2, jnp.where(p > 0, chosen, -1)), self.size)
        active = jnp.arange(self.size) < jnp.sum(p > 0)
        return Cohort.of(ids, jnp.where(active, p[ids], 1), population, selection="arbitrary", active=active)

    def variance(self, state, population, vectors):
        return balanced_variance(self.expected_draws(state, population), vectors, jnp.ones((population.count, 1), vectors.dtype))


def balanced_variance(p: Float[Array, " n"], vectors: Float[Array, "n d"], ratios: Float[Array, "n r"]) -> Float[Array, ""]:
    """Return sum_i c_i |v_i / p_i - B' z_i|^2, c_i = p_i (1 - p_i) m / (m - r), B its minimiser (Deville and Tille, 2005).

    It approximates the variance of sum_{i in S} v_i / p_i under balancing on x_i = p_i z_i, z_i being row i of `ratios`, which
    have rank r where c_i > 0; m counts those with 0 < p_i < 1. With z_i = 1, a fixed size, it is Hajek's, exact for equal p_i.
    """
    coins = jnp.where(p > 0, p * (1 - p), 0).astype(vectors.dtype)
    root, expansion = jnp.sqrt(jnp.maximum(coins, 0))[:, None], (1 / positive(p)).astype(vectors.dtype)[:, None]
    explained, seen = root * ratios, root * expansion * vectors
    fit, _, rank, _ = jnp.linalg.lstsq(explained, seen)
    many = jnp.sum(coins > 0)
    freedom = jnp.maximum(many - rank, 1).astype(vectors.dtype)
    return jnp.sum((seen - explained @ fit) ** 2) * many.astype(vectors.dtype) / freedom


def in_random_order(key, p: Float[Array, " n"]) -> Int[Array, " n"]:
    """Return all clients in a random order, but those with p_i = 0 last."""
    return jnp.argsort(jnp.where(p > 0, jax.random.uniform(key, p.shape, p.dtype), 2))
