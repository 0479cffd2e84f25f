"""Base class of the designs that draw one client after another, each with the same probabilities."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from turnout.core.records import Count, Fraction, record, static
from turnout.core.tree import positive
from turnout.problems.base import Population
from turnout.samplers.base import as_distribution
from turnout.samplers.probabilities import Probability
from turnout.samplers.probabilities.waterfilling import normalised
from turnout.samplers.weighted import Weighted


@record
class DrawByDraw(Weighted):
    """Base class: K = `size` draws of one client each, i with probability q_i, sum q = 1 over the available clients.

    Args:
        probability: Numbers q_i, or a rule.
        size: K, the number of draws.
    """

    probability: Probability | list[Fraction] | np.ndarray | None = None
    size: Count = static(kw_only=True)

    name: ClassVar[str] = "draw-by-draw"

    def checked(self, probability, population):
        return as_distribution(probability, population.count, self.name, "client")

    def draw_probabilities(self, state: Any, population: Population) -> Float[Array, " n"]:
        """Return q_i.

        Args:
            state: State of the sampler.
            population: The clients, their weights, and who is available.
        """
        if isinstance(self.probability, Probability):
            return self.probability.draw_probabilities(state, self.size, population)
        return normalised(jnp.asarray(self.probability, jnp.result_type(float)), population.available)


def gumbel_scores(key, q: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return log q_i plus Gumbel noise, -inf where q_i = 0, for probabilities known up to a factor.

    The K largest scores, in decreasing order, are K draws with probabilities `q` without replacement.

    Args:
        key: Random key.
        q: q_i >= 0 [n].
    """
    noise = jax.random.gumbel(key, q.shape, q.dtype)
    return jnp.where(q > 0, jnp.log(positive(q)) + noise, -jnp.inf)


def one_draw_variance(q: Float[Array, " n"], left: Float[Array, " n"], vectors: Float[Array, "n d"]) -> Float[Array, ""]:
    """Return r sum_i e_i |v_i|^2 / q_i - |sum_i e_i v_i|^2, r = sum_i e_i q_i, with e_i = `left`, 1 for clients not drawn yet.

    It is the variance of r v_i / q_i when one of these clients is drawn with probability q_i / r.

    Args:
        q: q_i >= 0 [n].
        left: e_i, 1 for clients that are not drawn yet [n].
        vectors: v_i [n, d].
    """
    left = jnp.where(q > 0, left, 0)
    squares = jnp.sum(left * jnp.sum(vectors**2, axis=1) / positive(q))
    return jnp.sum(left * q) * squares - jnp.sum((left @ vectors) ** 2)
