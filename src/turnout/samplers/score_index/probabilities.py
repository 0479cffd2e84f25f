"""Probabilities from scores: the threshold nu is found from O(K) scores and the sums of the buckets.

A client of score a has probability p = scale min(1, t / nu) + minimum with t = factor a + score_offset, where factor is
known_factor or, for clients without feedback so far, fresh_factor. If t = 0, zero_probability replaces min(1, t / nu).
"""

import numpy as np

from turnout.core.numba_functions import compiled
from turnout.samplers.score_index.buckets import bucket_sum, locate, occupied_range, upper_edge

WIDTH = 1.25
"""The largest ratio of a bucket's upper edge to its lower edge."""


@compiled
def probability_of(c, a, fresh):
    """Return the probability of a client with score `a`, `c` being the coefficients.

    Args:
        c: The coefficients.
        a: The score.
        fresh: Whether the client gave no feedback yet.
    """
    t = (c.fresh_factor if fresh else c.known_factor) * a + c.score_offset
    p = c.zero_probability if t == 0 else 1.0 if t >= c.nu else t / c.nu
    return min(1.0, c.scale * p + c.minimum)


@compiled
def probabilities_of(buckets, ids):
    """Return the probabilities of the clients `ids`.

    Args:
        buckets: The clients in buckets.
        ids: Ids of the clients [k].
    """
    p = np.empty(ids.size)
    for k in range(ids.size):
        a, at = locate(buckets, ids[k])
        p[k] = probability_of(buckets.coefficients[0], a, at & 1)
    return p


@compiled
def update_coefficients(buckets, size, theta, mixes_before_cap, replacement, fresh):
    """Set the coefficients for K = `size`, without a cap for draws with `replacement`; `fresh` scales the fresh scores.

    Args:
        buckets: The clients in buckets.
        size: K, the number of clients in a cohort.
        theta: Weight of the uniform distribution, in [0, 1].
        mixes_before_cap: Whether scores are mixed with their mean before the cap.
        replacement: Whether clients are drawn with replacement.
        fresh: Factor of the scores of clients without feedback.
    """
    n, c = buckets.client.size, buckets.coefficients[0]
    bottom, top = occupied_range(buckets)
    total = 0.0
    for at in range(bottom, top + 1):
        total += (fresh if at & 1 else 1.0) * bucket_sum(buckets, at)
    c.known_factor, c.fresh_factor, c.score_offset, c.zero_probability = 1.0, fresh, 0.0, 0.0
    c.scale, c.minimum = 1.0 - theta, theta * (1.0 if replacement else size) / n
    if mixes_before_cap:
        c.known_factor, c.fresh_factor, c.score_offset = 1.0 - theta, (1.0 - theta) * fresh, theta * total / n
        c.scale, c.minimum = 1.0, 0.0
    positive = n if c.score_offset > 0 else n - buckets.bucket[2].start
    largest = max(c.known_factor, c.fresh_factor) * upper_edge(top) + c.score_offset
    if replacement:
        c.nu, c.zero_probability = total, 0.0 if total > 0 else 1.0 / n
    elif positive <= size:
        c.nu, c.zero_probability = 0.0, (size - positive) / max(1, n - positive)
    elif largest <= total / size:
        c.nu, c.zero_probability = total / size, 0.0
    else:
        rest, top_scores = _split_at_cap(buckets, size, c, bottom, top)
        c.nu, c.zero_probability = _threshold(rest, top_scores, size), 0.0


@compiled
def _split_at_cap(buckets, size, c, bottom, top):
    """Return the sum of t over the buckets where no client can have p = 1, and the other t in increasing order.

    If a client has p = 1, then every client in its bucket and in higher ones has p > 1 / WIDTH. As the p sum to K, there are
    fewer than WIDTH K of these, for known and for fresh clients each: fewer than 2.5 K scores are sorted.
    """
    lowest, counts = np.array([top + 1, top + 1]), np.zeros(2, np.int64)
    closed = np.zeros(2, np.bool_)
    for at in range(top, bottom - 1, -1):
        kind, count = at & 1, buckets.bucket[at + 1].start - buckets.bucket[at].start
        closed[kind] |= counts[kind] + count >= WIDTH * size
        if not closed[kind]:
            lowest[kind] = at
            counts[kind] += count
    rest, top_scores, filled = 0.0, np.empty(counts[0] + counts[1]), 0
    for at in range(bottom, top + 1):
        factor = c.fresh_factor if at & 1 else c.known_factor
        if at < lowest[at & 1]:
            rest += factor * bucket_sum(buckets, at) + c.score_offset * (buckets.bucket[at + 1].start - buckets.bucket[at].start)
            continue
        for place in range(buckets.bucket[at].start, buckets.bucket[at + 1].start):
            top_scores[filled] = factor * locate(buckets, buckets.client[place].order)[0] + c.score_offset
            filled += 1
    return rest, np.sort(top_scores)


@compiled
def _threshold(rest, top_scores, size):
    """Return nu with sum_i min(1, t_i / nu) = K: as many of the largest t have p = 1 as exceed the share of the others."""
    sums = np.empty(top_scores.size + 1)
    sums[0] = rest
    for k in range(top_scores.size):
        sums[k + 1] = sums[k] + top_scores[k]
    left, places = top_scores.size, size
    while left > 0 and top_scores[left - 1] * places > sums[left]:
        left -= 1
        places -= 1.0
    return sums[left] / places
