"""The probabilities that minimise sum_i a_i^2 / p_i for given scores a, among those that a design allows."""

import math

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from turnout.core.tree import positive

Scores = Float[Array, " n"]
Mask = Bool[Array, " n"]


def capped(scores: Scores, size: Float[Array, ""], available: Mask | None = None) -> Scores:
    """Return p_i = min(1, a_i / nu) with nu such that sum_i p_i = K = `size`, for scores a_i >= 0 [n].

    It minimises sum_i a_i^2 / p_i over 0 <= p_i <= 1, sum_i p_i = K (K-Vib, equation (10) and Lemma 5.1 with square roots).
    With the scores in increasing order, nu = sum_{j <= l} a_j / (K + l - n), l being the largest with
    0 < (K + l - n) a_l <= sum_{j <= l} a_j.
    Where at most K scores are above 0, those clients have p_i = 1 and the others share what is left equally. Who is not
    `available` has p_i = 0, and K is at most the number of those who are.
    """
    scores, allowed = relative(scores, available)
    size = jnp.minimum(size, count(allowed, scores.dtype))
    order = jnp.sort(scores)
    places = size - jnp.arange(scores.size - 1, -1, -1, dtype=scores.dtype)
    among = (places > 0) & (places * order <= jnp.cumsum(order))
    last = scores.size - 1 - jnp.argmax(among[::-1])
    # Added up anew, since a running sum gathers more rounding.
    total = jnp.sum(jnp.where(jnp.arange(scores.size) <= last, order, 0))
    p = jnp.minimum(1, places[last] * (scores / positive(total)))
    found = count(scores > 0, scores.dtype)
    left = jnp.maximum(size - found, 0) / positive(count(allowed, scores.dtype) - found)
    return jnp.where(found > size, p, jnp.where(scores > 0, 1, jnp.where(allowed, left, 0)))


def bounded(scores: Scores, size: Float[Array, ""], floor: Float[Array, ""], available: Mask | None = None) -> Scores:
    """Return p_i = min(1, max(`floor`, a_i / nu)) with nu such that sum_i p_i = K = `size`, for scores a_i >= 0 [n].

    It minimises sum_i a_i^2 / p_i over floor <= p_i <= 1, sum_i p_i = K, and with K = 1 the divergence sum_i p_i log(p_i / a_i)
    too. The floor times the number of clients is at most K. Those with a_i = 0 share what the others cannot take; who is not
    `available` has p_i = 0, and K is at most the number of those who are.
    """
    scores, allowed = relative(scores, available)
    sought, size = scores > 0, jnp.minimum(size, count(allowed, scores.dtype))
    enter, leave = (jnp.where(sought, bound / positive(scores), 0) for bound in (floor, jnp.ones_like(floor)))
    edges = jnp.sort(jnp.concatenate([enter, leave]))

    def halve(_, ends):
        low, high = ends
        middle = (low + high) // 2
        fits = jnp.sum(jnp.where(allowed, jnp.clip(edges[middle] * scores, floor, 1), 0)) <= size
        return jnp.where(fits, middle, low), jnp.where(fits, high, middle)

    # 1 / nu lies between two neighbouring edges, where everybody keeps to the same side of both bounds.
    halvings = math.ceil(math.log2(edges.size))
    edge = edges[lax.fori_loop(0, halvings, halve, (jnp.zeros((), "int32"), jnp.full((), edges.size, "int32")))[0]]
    top = sought & (leave <= edge)
    free = sought & (enter <= edge) & ~top
    low = allowed & ~top & ~free
    rest, many = size - count(top, scores.dtype), count(low, scores.dtype)
    share = jnp.where(jnp.any(free), floor, rest / positive(many))
    moving = (rest - floor * many) * (scores / positive(jnp.sum(jnp.where(free, scores, 0))))
    p = jnp.where(top, 1, jnp.where(free, moving, share))
    return jnp.where(allowed, jnp.clip(p, jnp.minimum(floor, size), 1), 0)


def normalised(scores: Scores, available: Mask | None = None) -> Scores:
    """Return q_i = a_i / sum_j a_j over those `available`, equal ones if all their scores are 0.

    It minimises sum_i a_i^2 / q_i over sum q = 1.
    """
    scores, allowed = relative(scores, available)
    scores = jnp.where(jnp.any(scores > 0), scores, allowed.astype(scores.dtype))
    return scores / positive(jnp.sum(scores))


def mixed(scores: Scores, theta: Float[Array, ""], available: Mask | None = None) -> Scores:
    """Return (1 - theta) a_i + theta mean(a), the mean over those `available`; capped to K it leaves every p_i >= theta K / n."""
    scores, allowed = relative(scores, available)
    mean = jnp.sum(scores) / positive(count(allowed, scores.dtype))
    return jnp.where(allowed, (1 - theta) * scores + theta * mean, 0)


def blended(p: Scores, theta: Float[Array, ""], available: Mask | None = None) -> Scores:
    """Return (1 - theta) p_i + theta sum_j p_j / n, n counting those `available`."""
    allowed = jnp.ones(p.shape, bool) if available is None else available
    uniform = jnp.sum(p) / positive(count(allowed, p.dtype))
    # Rounding may carry the mean of ones above 1.
    return jnp.where(allowed, jnp.minimum(1, (1 - theta) * p + theta * uniform), 0)


def relative(scores: Scores, available: Mask | None) -> tuple[Scores, Mask]:
    """Return the scores of those `available` as parts of the largest, infinite ones too, and who they are."""
    allowed = jnp.ones(scores.shape, bool) if available is None else available
    scores = jnp.where(allowed, jnp.minimum(scores, jnp.finfo(scores.dtype).max), 0)
    return scores / positive(jnp.max(scores)), allowed


def count(which: Mask, dtype) -> Float[Array, ""]:
    """Return how many are true, as a number to calculate with."""
    return jnp.sum(which, dtype=dtype)
