"""Clients sorted into buckets by score, with an exact sum for each bucket: 16 bytes per client.

A bucket is the binary exponent of a score and the first two bits after its leading one, so its edges are 1, 1.25, 1.5 and 1.75
times a power of two. Scores below `MIN_SCORE` count as zero and share one bucket. Every bucket exists twice: for clients that
gave feedback before ("known") and, right after it, for those that did not ("fresh"). The scores of fresh clients share a factor,
which is stored elsewhere.

All scores of a bucket are integer multiples, below 2^53, of one power of two. Their sum is kept as two integers of 27 and 26
bits per score: it is exact in any order, does not drift, and does not overflow below 2^36 clients.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from turnout.core.numba_functions import compiled

MIN_SCORE, MAX_SCORE = 2.0**-511, 2.0**511
"""Scores below the first count as zero; all others are below the second."""

BUCKET_COUNT = 2 * (4 * 1022 + 1)
"""The number of buckets; `locate` returns the number of a client's bucket."""

OFFSET = 4 * (1023 - 511) - 1
HALF, ONE = 26, 1 << 52


CLIENT = np.dtype([("score", np.float64), ("order", np.int32), ("place", np.int32)])
BUCKET = np.dtype([("start", np.int64), ("high", np.int64), ("low", np.int64)])
COEFFICIENT_NAMES = ("known_factor", "fresh_factor", "score_offset", "nu", "zero_probability", "scale", "minimum")
COEFFICIENTS = np.dtype([(name, np.float64) for name in COEFFICIENT_NAMES])
"""They map scores to probabilities: see `turnout.samplers.score_index.probabilities`."""


class Buckets(NamedTuple):
    """The clients, the buckets, and the coefficients that map scores to probabilities.

    `client[i]` holds the score of client i, its place in the order of buckets, and (as `order`) the id at place i; `bucket[b]`
    holds the first place of bucket b and its sum. A negative sign of a score (also of -0.0) marks a fresh client. Numbers that
    are read together are stored together, because memory access dominates the time.
    """

    client: np.ndarray
    bucket: np.ndarray
    coefficients: np.ndarray


def make_buckets(score: Float[np.ndarray, " n"], order: Int[np.ndarray, " n"] | None = None) -> Buckets | None:
    """Sort clients into buckets in O(n); return None if a given `order` does not fit the scores.

    Args:
        score: Score of each client [n], negative for a fresh one.
        order: Ids in the order of the buckets, from a checkpoint.
    """
    buckets = Buckets(np.empty(score.size, CLIENT), np.zeros(BUCKET_COUNT + 1, BUCKET), np.zeros(1, COEFFICIENTS))
    buckets.client["score"], buckets.client["place"] = score, -1
    _count(buckets)
    if order is None:
        _sort(buckets)
    else:
        buckets.client["order"] = order
    return buckets if _locate(buckets) else None


@compiled
def locate(buckets, i):
    """Return the score of client i, 0 if it counts as zero, and the number of its bucket, which is odd for a fresh client.

    Args:
        buckets: The clients in buckets.
        i: Id of the client.
    """
    a = buckets.client[i].score
    fresh, a = np.int64(np.signbit(a)), abs(a)
    if a < MIN_SCORE:
        return 0.0, fresh
    return a, 2 * ((np.float64(a).view(np.int64) >> 50) - OFFSET) + fresh


@compiled
def occupied_range(buckets):
    """Return the lowest and the highest nonempty bucket."""
    return locate(buckets, buckets.client[0].order)[1], locate(buckets, buckets.client[-1].order)[1]


@compiled
def upper_edge(key):
    """Return the smallest number above all scores of bucket `key`."""
    return 0.0 if key < 2 else np.int64(((key >> 1) + OFFSET + 1) << 50).view(np.float64)


@compiled
def bucket_sum(buckets, key):
    """Return the sum of the scores of bucket `key`, rounded at most twice.

    Args:
        buckets: The clients in buckets.
        key: Number of the bucket.
    """
    exponent = ((key >> 1) + OFFSET) >> 2
    unit = np.int64((exponent - 52) << 52).view(np.float64)
    return (buckets.bucket[key].high * float(1 << HALF) + buckets.bucket[key].low) * unit if key > 1 else 0.0


@compiled
def add_to_sum(buckets, key, a, sign):
    """Add score `a` to the sum of bucket `key`, or subtract it with `sign` = -1.

    Args:
        buckets: The clients in buckets.
        key: Number of the bucket.
        a: The score.
        sign: 1 or -1.
    """
    if key > 1:
        mantissa = (np.float64(a).view(np.int64) & (ONE - 1)) | ONE
        buckets.bucket[key].high += sign * (mantissa >> HALF)
        buckets.bucket[key].low += sign * (mantissa & ((1 << HALF) - 1))


@compiled
def move(buckets, i, score):
    """Set the score of client i; it swaps places with one client of each bucket on the way to its new one.

    Args:
        buckets: The clients in buckets.
        i: Id of the client.
        score: Its new score.
    """
    a, at = locate(buckets, i)
    add_to_sum(buckets, at, a, -1)
    buckets.client[i].score = score
    a, to = locate(buckets, i)
    add_to_sum(buckets, to, a, 1)
    bucket = buckets.bucket
    while at < to:
        at += 1
        bucket[at].start -= 1
        _swap(buckets, i, bucket[at].start)
    while at > to:
        _swap(buckets, i, bucket[at].start)
        bucket[at].start += 1
        at -= 1


@compiled
def _swap(buckets, i, place):
    left, j = buckets.client[i].place, buckets.client[place].order
    if j != i:
        buckets.client[left].order, buckets.client[j].place = j, left
        buckets.client[place].order, buckets.client[i].place = i, place


@compiled
def _count(buckets):
    for i in range(buckets.client.size):
        a, at = locate(buckets, i)
        buckets.bucket[at + 1].start += 1
        add_to_sum(buckets, at, a, 1)
    for at in range(BUCKET_COUNT):
        buckets.bucket[at + 1].start += buckets.bucket[at].start


@compiled
def _sort(buckets):
    following = buckets.bucket["start"].copy()
    for i in range(buckets.client.size):
        _, at = locate(buckets, i)
        buckets.client[following[at]].order = i
        following[at] += 1


@compiled
def _locate(buckets):
    """Fill `place`; return whether the order lists every client once and in its bucket."""
    n, last = buckets.client.size, 0
    for place in range(n):
        i = buckets.client[place].order
        if i < 0 or i >= n or buckets.client[i].place >= 0 or locate(buckets, i)[1] < last:
            return False
        buckets.client[i].place, last = place, locate(buckets, i)[1]
    return True
