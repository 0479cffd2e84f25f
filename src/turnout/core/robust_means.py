"""Robust means of replies: a few clients, whatever they send, move them only so far.

All weights w_i >= 0 sum to one. They are lambda_i or lambda_i / p_i, scaled, and 0 for clients that did not answer. Except for
the first two, which treat every coordinate alone, the norm |r| is that of all arrays of a reply together.
"""

from abc import abstractmethod
from typing import Annotated

import annotated_types as at
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

from turnout.core.errors import UserError
from turnout.core.records import Count, Index, Positive, record, static
from turnout.core.tree import positive


class RobustMean:
    """A robust mean in the place of a weighted mean."""

    @abstractmethod
    def centre(self, replies: PyTree, weights: Float[Array, " m"]) -> PyTree:
        """Return the robust mean of replies.

        Args:
            replies: Replies [m, ...]; those of weight 0 are finite, and do not count.
            weights: Weights [m], not negative, with the sum one.
        """

    def refuse(self, places: int) -> None:
        """Raise `UserError` if a cohort of so many places is too small."""


@record
class CoordinateMedian(RobustMean):
    """In each coordinate the weighted median: the middle of all a with w(r < a) <= 1/2 and w(r > a) <= 1/2.

    Yin, Chen, Ramchandran and Bartlett, Byzantine-robust distributed learning, 2018, Definition 1, has equal weights. Each
    coordinate is within the range of the honest replies while the others have less than half of the weight.

    Examples:
        >>> import turnout as t
        >>> algorithm, problem = t.FedAvg(t.Full(), lr=0.1), t.Quadratic.random(12, 5)
        >>> t.run(algorithm, problem, rounds=3, aggregation=t.CoordinateMedian()).ledger.totals()["exchanges"]
        3
    """

    def centre(self, replies, weights):
        return jax.tree.map(lambda leaf: _by_coordinate(leaf, weights, _median), replies)


@record
class TrimmedMean(RobustMean):
    """In each coordinate the mean of what is left when the smallest and the largest values lose the weight `share` each.

    A value at the boundary keeps a part of its weight. Yin et al., 2018, Definition 2, is the case of equal weights and a whole
    number of values on each side. Each coordinate is within the range of the honest replies while the others have at most the
    weight `share`.

    Args:
        share: Weight that is cut off at each end, 0 <= share < 1/2; 0 gives the mean.

    Examples:
        >>> import turnout as t
        >>> algorithm, problem = t.FedAvg(t.Full(), lr=0.1), t.Quadratic.random(12, 5)
        >>> t.run(algorithm, problem, rounds=3, aggregation=t.TrimmedMean(share=0.2)).ledger.totals()["exchanges"]
        3
    """

    share: Annotated[float, at.Ge(0), at.Lt(0.5)]

    def centre(self, replies, weights):
        return jax.tree.map(lambda leaf: _by_coordinate(leaf, weights, self._trimmed), replies)

    def _trimmed(self, values, ends):
        share = jnp.asarray(self.share, ends.dtype)
        begins = jnp.concatenate([jnp.zeros_like(ends[:1]), ends[:-1]])
        kept = jnp.minimum(ends, 1 - share) - jnp.maximum(begins, share)
        # What rounding leaves of a value that is cut off may be times any number.
        kept = jnp.where(kept > _slack(ends.dtype), kept, 0)
        kept = kept / positive(jnp.sum(kept, 0, keepdims=True))
        return jnp.sum(jnp.where(kept > 0, kept * values, 0), 0)


@record
class GeometricMedian(RobustMean):
    """argmin_v sum_i w_i |v - r_i|, by smoothed Weiszfeld steps: v <- sum b_i r_i / sum b_i, b_i = w_i / max(nu, |v - r_i|).

    Pillutla, Kakade and Harchaoui, Robust aggregation for federated learning, 2022, Algorithm 2 with nu = `smoothing`. It starts
    from the coordinate-wise median here. Bounded while the others have less than half of the weight.

    Args:
        iterations: Number of steps.
        smoothing: nu, the distance below which weights do not grow, > 0.

    Examples:
        >>> import turnout as t
        >>> algorithm, problem = t.FedAvg(t.Full(), lr=0.1), t.Quadratic.random(12, 5)
        >>> t.run(algorithm, problem, rounds=3, aggregation=t.GeometricMedian()).ledger.totals()["exchanges"]
        3
    """

    iterations: Count = static(default=16)
    smoothing: Positive = 1e-6

    def centre(self, replies, weights):
        def step(_, v):
            distance = _distances(replies, v)
            factors = weights / jnp.maximum(distance, jnp.asarray(self.smoothing, weights.dtype))
            return _weighted(replies, factors / positive(jnp.sum(factors)))

        return lax.fori_loop(0, self.iterations, step, CoordinateMedian().centre(replies, weights))


@record
class CentredClipping(RobustMean):
    """v <- v + sum_i w_i (r_i - v) min(1, tau / |r_i - v|).

    Karimireddy, He and Jaggi, Learning from history for Byzantine robust optimization, 2021, equation 8 (centered clipping), with
    equal weights. They start from the last aggregate; this starts from the coordinate-wise median, since an exchange has no
    last one. Clients with the weight b together move v by at most b tau in each step.

    Args:
        radius: tau, > 0.
        iterations: Number of steps.

    Examples:
        >>> import turnout as t
        >>> algorithm, problem = t.FedAvg(t.Full(), lr=0.1), t.Quadratic.random(12, 5)
        >>> t.run(algorithm, problem, rounds=3, aggregation=t.CentredClipping(radius=1.0)).ledger.totals()["exchanges"]
        3
    """

    radius: Positive
    iterations: Count = static(default=3)

    def centre(self, replies, weights):
        def step(_, v):
            factors = weights * jnp.minimum(1, jnp.asarray(self.radius, weights.dtype) / positive(_distances(replies, v)))
            return jax.tree.map(lambda leaf, centre: centre + _sum(leaf - centre[None], factors), replies, v)

        return lax.fori_loop(0, self.iterations, step, CoordinateMedian().centre(replies, weights))


@record
class Krum(RobustMean):
    """The reply r_i with the least sum of |r_i - r_j|^2 over the m - f - 2 replies r_j nearest to it, of m that arrived.

    Blanchard, El Mhamdi, Guerraoui and Stainer, Machine learning with adversaries, 2017. It chooses a single reply, without
    regard to the weights of those that have one. Their theorem needs 2 f + 2 < m.

    Args:
        byzantine: f, the number of clients that may send anything.

    Examples:
        >>> import turnout as t
        >>> algorithm, problem = t.FedAvg(t.Full(), lr=0.1), t.Quadratic.random(12, 5)
        >>> t.run(algorithm, problem, rounds=3, aggregation=t.Krum(byzantine=2)).ledger.totals()["exchanges"]
        3
    """

    byzantine: Index = static()

    def refuse(self, places):
        if places < 2 * self.byzantine + 3:
            needed = 2 * self.byzantine + 3
            raise UserError(
                f"Krum with byzantine = {self.byzantine} needs cohorts of at least {needed} clients, but has {places}"
            )

    def centre(self, replies, weights):
        there = weights > 0
        nearest = jnp.maximum(jnp.sum(there) - self.byzantine - 2, 1)

        def score(own):
            i, reply = own
            counts = there & (jnp.arange(weights.size) != i)
            squares = jnp.sort(jnp.where(counts, _distances(replies, reply) ** 2, jnp.inf))
            return jnp.sum(jnp.where(jnp.arange(weights.size) < nearest, squares, 0))

        scores = lax.map(score, (jnp.arange(weights.size), replies))
        best = jnp.argmin(jnp.where(there, scores, jnp.inf))
        return jax.tree.map(lambda leaf: leaf[best], replies)


def _by_coordinate(leaf, weights, of):
    """Return `of` the values of each coordinate in increasing order, [m, ...], and of the sums of weights up to each."""
    order = jnp.argsort(leaf, axis=0)
    ends = jnp.cumsum(weights.astype(leaf.dtype)[order], 0)
    return of(jnp.take_along_axis(leaf, order, 0), ends)


def _median(values, ends):
    slack = _slack(ends.dtype)
    lower, upper = jnp.argmax(ends >= 0.5 - slack, 0), jnp.argmax(ends > 0.5 + slack, 0)
    low, high = (jnp.take_along_axis(values, place[None], 0)[0] for place in (lower, upper))
    return low / 2 + high / 2


def _slack(dtype):
    """Return by how much sums of weights are wrong at most: sums of equal weights meet 1/2 up to rounding only."""
    return 64 * jnp.finfo(dtype).eps


def _distances(replies: PyTree, centre: PyTree) -> Float[Array, " m"]:
    """Return the norm of each reply minus `centre`; infinity where its square is too large a number."""
    pairs = zip(jax.tree.leaves(replies), jax.tree.leaves(centre), strict=True)
    squares = [jnp.sum((leaf - centre[None]).reshape(leaf.shape[0], -1) ** 2, 1) for leaf, centre in pairs]
    return jnp.sqrt(sum(squares))


def _weighted(replies: PyTree, factors) -> PyTree:
    return jax.tree.map(lambda leaf: _sum(leaf, factors), replies)


def _sum(leaf, factors):
    """Return the sum of `factors` times the parts of `leaf`, where a factor of 0 leaves out any number."""
    factors = factors.astype(leaf.dtype).reshape(-1, *(1,) * (leaf.ndim - 1))
    return jnp.sum(jnp.where(factors > 0, factors * leaf, 0), 0)
