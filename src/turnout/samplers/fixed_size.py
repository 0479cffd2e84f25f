"""Base class of the designs with exactly K clients and given inclusion probabilities, and their variance."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
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
    """Base class: exactly K = `size` clients, client i with probability p_i; all of them if at most K are available.

    Given p_i are scaled, and capped at 1, to sum to K over the available clients. A subclass writes `select`.

    Args:
        probability: Numbers p_i, or a rule.
        size: K, the number of clients in a cohort.
    """

    probability: Probability | list[Fraction] | np.ndarray | None = None
    size: Count = static(kw_only=True)

    name: ClassVar[str] = "fixed-size"

    def expected_draws(self, state, population):
        p = super().expected_draws(state, population)
        if isinstance(self.probability, Probability) or population.available is None:
            return p
        return capped(p, jnp.asarray(self.size, p.dtype), population.available)

    def select(self, key, p: Float[Array, " n"], population: Population) -> Float[Array, " n"]:
        """Return 1 for K clients and 0 for the others, each up to rounding, with mean `p`.

        Args:
            key: Random key.
            p: Inclusion probabilities p_i [n].
            population: The clients, their weights, and who is available.
        """
        raise UserError(f"{type(self).__name__} has no select(self, key, p, population): write one")

    def draw(self, state, key, population):
        p = self.expected_draws(state, population)
        selected = self.select(key, p, population)
        # Whatever the rounding, clients with p = 1 come first, clients with p = 0 last, and the size is K.
        _, ids = lax.top_k(jnp.where(p >= 1, 2, jnp.where(p > 0, selected, -1)), self.size)
        active = jnp.arange(self.size) < jnp.sum(p > 0)
        return Cohort.of(ids, jnp.where(active, p[ids], 1), population, selection="arbitrary", active=active)

    def variance(self, state, population, vectors):
        return balanced_variance(self.expected_draws(state, population), vectors, jnp.ones((population.count, 1), vectors.dtype))


def balanced_variance(p: Float[Array, " n"], vectors: Float[Array, "n d"], ratios: Float[Array, "n r"]) -> Float[Array, ""]:
    """Return sum_i c_i |v_i / p_i - B' z_i|^2, c_i = p_i (1 - p_i) m / (m - r), minimised over B (Deville and Tille, 2005).

    It approximates the variance of sum_{i in S} v_i / p_i for a design balanced on x_i = p_i z_i, where z_i, row i of `ratios`,
    has rank r over the clients with c_i > 0, and m counts the clients with 0 < p_i < 1. With z_i = 1, a fixed size, it is
    Hajek's formula, which is exact for equal p_i.

    Args:
        p: Inclusion probabilities p_i [n].
        vectors: v_i [n, d].
        ratios: z_i [n, r].
    """
    coefficients = jnp.where(p > 0, p * (1 - p), 0).astype(vectors.dtype)
    root, expansion = jnp.sqrt(jnp.maximum(coefficients, 0))[:, None], (1 / positive(p)).astype(vectors.dtype)[:, None]
    regressors, targets = root * ratios, root * expansion * vectors
    fit, _, rank, _ = jnp.linalg.lstsq(regressors, targets)
    m = jnp.sum(coefficients > 0)
    freedom = jnp.maximum(m - rank, 1).astype(vectors.dtype)
    return jnp.sum((targets - regressors @ fit) ** 2) * m.astype(vectors.dtype) / freedom


def in_random_order(key, p: Float[Array, " n"]) -> Int[Array, " n"]:
    """Return all clients in random order, those with p_i = 0 last.

    Args:
        key: Random key.
        p: Inclusion probabilities p_i [n].
    """
    return jnp.argsort(jnp.where(p > 0, jax.random.uniform(key, p.shape, p.dtype), 2))
