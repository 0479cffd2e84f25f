"""Replies whose sums are formed by a robust mean."""

import jax
import jax.numpy as jnp

from turnout.core.replies import Replies, SumsOnly
from turnout.core.robust_means import RobustMean
from turnout.core.tree import positive


class RobustReplies(SumsOnly):
    """Replies whose sum with the weights w_i is W times their robust mean with the weights w_i / W, W = sum w_i.

    Args:
        held: The replies.
        robust: The robust mean.
    """

    held: Replies
    robust: RobustMean
    why = "a robust mean replaces sums of replies, and this algorithm looks at each: take aggregation = 'plain'"

    def summed(self, by):
        weight = jnp.where(self.answered, getattr(self.cohort, by), 0)
        total = jnp.sum(weight)
        there = weight > 0

        def cleared(leaf):
            return jnp.where(there.reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, 0)

        centre = self.robust.centre(jax.tree.map(cleared, self.held.values), weight / positive(total))
        return jax.tree.map(lambda leaf: total.astype(leaf.dtype) * leaf, centre)


def robust(replies: Replies, mean: RobustMean | None) -> Replies:
    """Return replies whose sums are formed by a robust mean, if there is one.

    Args:
        replies: Replies of the cohort.
        mean: The robust mean, or None.
    """
    if mean is None:
        return replies
    mean.refuse(replies.cohort.places)
    return RobustReplies(replies.cohort, replies.answered, held=replies, robust=mean)
