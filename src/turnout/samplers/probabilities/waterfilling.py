"""Probabilities from scores: those that minimise sum_i a_i^2 / p_i among the ones a design allows."""

import math

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from turnout.core.tree import positive

Scores = Float[Array, " n"]
Mask = Bool[Array, " n"]


def capped(scores: Scores, size: Float[Array, ""], available: Mask | None = None) -> Scores:
    """Return p_i = min(1, a_i / nu) with nu such that sum_i p_i = K = `size`, for scores a_i >= 0 [n].

    It minimises sum_i a_i^2 / p_i over 0 <= p_i <= 1, sum_i p_i = K (K-Vib, Zeng et al., 2023, equation (10) and Lemma 5.1,
    there for a_i^2). With the scores in increasing order, nu = sum_{j <= l} a_j / (K + l - n), where l is the largest number with
    0 < (K + l - n) a_l <= sum_{j <= l} a_j. If at most K scores are positive, those clients have p_i = 1 and the others share the
    rest equally. Clients that are not `available` have p_i = 0, and K is at most the number of the available ones.

    Args:
        scores: a_i >= 0 [n].
        size: K.
        available: Which clients are available [n]; None for all.
    """
    scores, allowed = relative(scores, available)
    size = jnp.minimum(size, count(allowed, scores.dtype))
    order = jnp.sort(scores)
    places = size - jnp.arange(scores.size - 1, -1, -1, dtype=scores.dtype)
    among = (places > 0) & (places * order <= jnp.cumsum(order))
    positions = jnp.arange(scores.size, dtype="int32")
    last = jnp.max(jnp.where(among, positions, -1))
    # Summed again, since cumulative sums round more.
    total = jnp.sum(jnp.where(positions <= last, order, 0))
    p = jnp.minimum(1, places[last] * (scores / positive(total)))
    positives = count(scores > 0, scores.dtype)
    rest = jnp.maximum(size - positives, 0) / positive(count(allowed, scores.dtype) - positives)
    return jnp.where(positives > size, p, jnp.where(scores > 0, 1, jnp.where(allowed, rest, 0)))


def bounded(scores: Scores, size: Float[Array, ""], floor: Float[Array, ""], available: Mask | None = None) -> Scores:
    """Return p_i = min(1, max(`floor`, a_i / nu)) with nu such that sum_i p_i = K = `size`, for scores a_i >= 0 [n].

    It minimises sum_i a_i^2 / p_i over floor <= p_i <= 1, sum_i p_i = K, and for K = 1 also the divergence
    sum_i p_i log(p_i / a_i). The floor times the number of clients must be at most K. Clients with a_i = 0 share what the others
    cannot take. Clients that are not `available` have p_i = 0, and K is at most the number of the available ones.

    Args:
        scores: a_i >= 0 [n].
        size: K.
        floor: The smallest p_i.
        available: Which clients are available [n]; None for all.
    """
    scores, allowed = relative(scores, available)
    nonzero, size = scores > 0, jnp.minimum(size, count(allowed, scores.dtype))
    enter, leave = (jnp.where(nonzero, bound / positive(scores), 0) for bound in (floor, jnp.ones_like(floor)))
    edges = jnp.sort(jnp.concatenate([enter, leave]))

    def halve(_, ends):
        low, high = ends
        middle = (low + high) // 2
        fits = jnp.sum(jnp.where(allowed, jnp.clip(edges[middle] * scores, floor, 1), 0)) <= size
        return jnp.where(fits, middle, low), jnp.where(fits, high, middle)

    # 1 / nu lies between two successive edges, between which no p_i reaches or leaves a bound.
    halvings = math.ceil(math.log2(edges.size))
    edge = edges[lax.fori_loop(0, halvings, halve, (jnp.zeros((), "int32"), jnp.full((), edges.size, "int32")))[0]]
    top = nonzero & (leave <= edge)
    free = nonzero & (enter <= edge) & ~top
    low = allowed & ~top & ~free
    rest, low_count = size - count(top, scores.dtype), count(low, scores.dtype)
    share = jnp.where(jnp.any(free), floor, rest / positive(low_count))
    moving = (rest - floor * low_count) * (scores / positive(jnp.sum(jnp.where(free, scores, 0))))
    p = jnp.where(top, 1, jnp.where(free, moving, share))
    return jnp.where(allowed, jnp.clip(p, jnp.minimum(floor, size), 1), 0)


def normalised(scores: Scores, available: Mask | None = None) -> Scores:
    """Return q_i = a_i / sum_j a_j over the available clients, uniform if all scores are 0; minimises sum_i a_i^2 / q_i.

    Args:
        scores: a_i >= 0 [n].
        available: Which clients are available [n]; None for all.
    """
    scores, allowed = relative(scores, available)
    scores = jnp.where(jnp.any(scores > 0), scores, allowed.astype(scores.dtype))
    return scores / positive(jnp.sum(scores))


def mixed(scores: Scores, theta: Float[Array, ""], available: Mask | None = None) -> Scores:
    """Return (1 - theta) a_i + theta mean(a) over the available clients; after the cap, p_i >= theta K / n.

    Args:
        scores: a_i >= 0 [n].
        theta: Weight of the uniform distribution, in [0, 1].
        available: Which clients are available [n]; None for all.
    """
    scores, allowed = relative(scores, available)
    mean = jnp.sum(scores) / positive(count(allowed, scores.dtype))
    return jnp.where(allowed, (1 - theta) * scores + theta * mean, 0)


def blended(p: Scores, theta: Float[Array, ""], available: Mask | None = None) -> Scores:
    """Return (1 - theta) p_i + theta sum_j p_j / n, n being the number of available clients.

    Args:
        p: p_i [n].
        theta: Weight of the uniform distribution, in [0, 1].
        available: Which clients are available [n]; None for all.
    """
    allowed = jnp.ones(p.shape, bool) if available is None else available
    uniform = jnp.sum(p) / positive(count(allowed, p.dtype))
    # Rounding may lift the mean of ones above 1.
    return jnp.where(allowed, jnp.minimum(1, (1 - theta) * p + theta * uniform), 0)


def relative(scores: Scores, available: Mask | None) -> tuple[Scores, Mask]:
    """Return the scores of the available clients divided by the largest, also if that is infinite, and who is available.

    Args:
        scores: a_i >= 0 [n].
        available: Which clients are available [n]; None for all.
    """
    allowed = jnp.ones(scores.shape, bool) if available is None else available
    scores = jnp.where(allowed, jnp.minimum(scores, jnp.finfo(scores.dtype).max), 0)
    return scores / positive(jnp.max(scores)), allowed


def count(which: Mask, dtype) -> Float[Array, ""]:
    """Return the number of true entries as a float.

    Args:
        which: Ones and zeros.
        dtype: Type of the result.
    """
    return jnp.sum(which, dtype=dtype)
