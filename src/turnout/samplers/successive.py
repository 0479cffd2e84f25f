"""What designs share that draw one client after the other, each by the same chances."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.records import Count, Fraction, record, static
from turnout.core.tree import positive
from turnout.problems.base import Population
from turnout.samplers.base import probabilities
from turnout.samplers.probabilities import Probability
from turnout.samplers.probabilities.waterfilling import normalised
from turnout.samplers.weighted import Weighted


@record
class ByChances(Weighted):
    """`size` = K clients, one after the other, i with chance q_i, sum q = 1.

    `probability` is a rule for q_i, or q_i itself [n]; the chances of those available are scaled to sum to 1.
    """

    size: Count = static()
    probability: Any | Probability | list[Fraction] = None

    name: ClassVar[str] = "by-chances"

    def given(self, probability, population):
        return probabilities(probability, population.count, self.name, "client")

    def draw_probabilities(self, state: Any, population: Population) -> Float[Array, " n"]:
        """Return q_i."""
        if isinstance(self.probability, Probability):
            return self.probability.draw_probabilities(state, self.size, population)
        return normalised(jnp.asarray(self.probability, jnp.result_type(float)), population.available)


def race(key, chances: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return scores whose K largest, from the top, are K draws by `chances` >= 0 without replacement; -inf where that is 0.

    They are the logarithms of the chances with Gumbel noise.
    """
    noise = jax.random.gumbel(key, chances.shape, chances.dtype)
    return jnp.where(chances > 0, jnp.log(positive(chances)) + noise, -jnp.inf)


def one_draw(q: Float[Array, " n"], left: Float[Array, " n"], vectors: Float[Array, "n d"]) -> Float[Array, ""]:
    """Return r sum_i |v_i|^2 / q_i - |sum_i v_i|^2, r = sum_i q_i, over those `left`.

    It is the variance of r v_i / q_i, one of them being drawn with chances q_i / r.
    """
    left = jnp.where(q > 0, left, 0)
    squares = jnp.sum(left * jnp.sum(vectors**2, axis=1) / positive(q))
    return jnp.sum(left * q) * squares - jnp.sum((left @ vectors) ** 2)
