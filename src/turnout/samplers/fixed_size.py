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
from turnout.samplers.in_double import in_double
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

    @property
    def places(self) -> int:
        """Places of a cohort."""
        return self.size

    def expected_draws(self, state, population):
        p = super().expected_draws(state, population)
        if isinstance(self.probability, Probability) or population.available is None:
            return p
        return capped(p, jnp.asarray(self.size, p.dtype), population.available)

    def select(self, key, p: Float[Array, " n"], population: Population) -> Float[Array, " n"]:
        """Return 1 for those drawn and 0 for the others, each up to rounding, with mean `p`.

        Args:
            key: Random key.
            p: Inclusion probabilities p_i [n].
            population: The clients, their weights, and who is available.
        """
        raise UserError(f"{type(self).__name__} has no select(self, key, p, population): write one")

    @in_double
    def draw(self, state, key, population):
        p = self.expected_draws(state, population)
        selected = self.select(key, p, population)
        # Whatever the rounding, clients with p = 1 come first, clients with p = 0 last, and the size is whole.
        _, ids = lax.top_k(jnp.where(p >= 1, 2, jnp.where(p > 0, selected, -1)), self.places)
        active = jnp.arange(self.places, dtype="int32") < jnp.round(jnp.sum(selected)).astype("int32")
        return Cohort.of(ids, jnp.where(active, p[ids], 1), population, selection="arbitrary", active=active)

    def variance(self, state, population, vectors):
        return hajek_variance(self.expected_draws(state, population), vectors)


def hajek_variance(p: Float[Array, " n"], vectors: Float[Array, "n d"]) -> Float[Array, ""]:
    """Return sum_i c_i |v_i / p_i - B|^2, c_i = p_i (1 - p_i) m / (m - 1), B the mean of v_i / p_i weighted by c_i (Hajek, 1964).

    It approximates the variance of sum_{i in S} v_i / p_i for a fixed size, where m counts the clients with 0 < p_i < 1; it is
    exact for equal p_i.

    Args:
        p: Inclusion probabilities p_i [n].
        vectors: v_i [n, d].
    """
    weights = (p * (1 - p)).astype(vectors.dtype)[:, None]
    expanded = vectors / positive(p).astype(vectors.dtype)[:, None]
    mean = jnp.sum(weights * expanded, axis=0, keepdims=True) / positive(jnp.sum(weights))
    m = jnp.sum(weights > 0, dtype=vectors.dtype)
    return jnp.sum(weights * (expanded - mean) ** 2) * m / jnp.maximum(m - 1, 1)


def in_random_order(key, p: Float[Array, " n"]) -> Int[Array, " n"]:
    """Return all clients in random order, those with p_i = 0 last.

    Args:
        key: Random key.
        p: Inclusion probabilities p_i [n].
    """
    return jnp.argsort(jnp.where(p > 0, jax.random.uniform(key, p.shape, p.dtype), 2))
