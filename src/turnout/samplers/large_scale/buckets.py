"""Clients ordered by buckets of their scores, with exact sums: 16 bytes a client.

A bucket is the exponent of a score and the first two bits behind its leading one: its edges are 1, 1.25, 1.5, 1.75 times a power
of two. Scores below `SMALLEST` count as zero and have a bucket of their own. Each comes twice, for clients that are known and,
behind it, for those that are fresh, whose scores share one factor that is not in here.

All scores of a bucket are whole multiples of one power of two below 2^53 times it, and so are added as integers, in two halves
of 27 and 26 bits: sums are exact in any order, do not drift and do not overflow below 2^36 clients.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from turnout.samplers.large_scale.compiled import compiled

SMALLEST, LARGEST = 2.0**-511, 2.0**511
"""Scores lie between these, or count as zero."""

KEYS = 2 * (4 * 1022 + 1)
"""Buckets, counted by `located`."""

OFFSET = 4 * (1023 - 511) - 1
HALF, ONE = 26, 1 << 52


CLIENT = np.dtype([("value", np.float64), ("order", np.int32), ("place", np.int32)])
BUCKET = np.dtype([("start", np.int64), ("high", np.int64), ("low", np.int64)])
LAW = np.dtype([(name, np.float64) for name in ("known", "fresh", "lift", "nu", "rest", "keep", "floor")])
"""See `turnout.samplers.large_scale.probabilities`."""


class Buckets(NamedTuple):
    """Clients by id: the value and where the id stands in the order of buckets; by place: the id there. Buckets: start and sums.

    The score of client i is sqrt(1 + value_i) with `root`, else |value_i|, a negative sign (of -0.0 too) marking a fresh one.
    Numbers that are used together lie together, as what takes time is to fetch them.
    """

    client: np.ndarray
    bucket: np.ndarray
    law: np.ndarray
    root: bool


def buckets_of(value: Float[np.ndarray, " n"], root: bool, order: Int[np.ndarray, " n"] | None = None) -> Buckets | None:
    """Put clients into buckets, in O(n); an `order` given must fit the values, or else the answer is None."""
    buckets = Buckets(np.empty(value.size, CLIENT), np.zeros(KEYS + 1, BUCKET), np.zeros(1, LAW), root)
    buckets.client["value"], buckets.client["place"] = value, -1
    _count(buckets)
    if order is None:
        _sort(buckets)
    else:
        buckets.client["order"] = order
    return buckets if _locate(buckets) else None


@compiled
def score(buckets, i):
    """Return the score of client i."""
    value = buckets.client[i].value
    return np.sqrt(1.0 + value) if buckets.root else abs(value)


@compiled
def located(buckets, i):
    """Return the score of client i, 0 where it counts as zero, and its bucket, an odd number for a fresh one."""
    a, fresh = score(buckets, i), np.int64(np.signbit(buckets.client[i].value))
    if a < SMALLEST:
        return 0.0, fresh
    return a, 2 * ((np.float64(a).view(np.int64) >> 50) - OFFSET) + fresh


@compiled
def ends(buckets):
    """Return the lowest and the highest bucket that is not empty."""
    return located(buckets, buckets.client[0].order)[1], located(buckets, buckets.client[-1].order)[1]


@compiled
def edge(key):
    """Return the least number above all scores of a bucket."""
    return 0.0 if key < 2 else np.int64(((key >> 1) + OFFSET + 1) << 50).view(np.float64)


@compiled
def total(buckets, key):
    """Return the sum of the scores in a bucket, rounded once or twice."""
    exponent = ((key >> 1) + OFFSET) >> 2
    unit = np.int64((exponent - 52) << 52).view(np.float64)
    return (buckets.bucket[key].high * float(1 << HALF) + buckets.bucket[key].low) * unit if key > 1 else 0.0


@compiled
def add(buckets, key, a, sign):
    """Add a score to the sums of its bucket, or with `sign` -1 take it away."""
    if key > 1:
        mantissa = (np.float64(a).view(np.int64) & (ONE - 1)) | ONE
        buckets.bucket[key].high += sign * (mantissa >> HALF)
        buckets.bucket[key].low += sign * (mantissa & ((1 << HALF) - 1))


@compiled
def move(buckets, i, value):
    """Give client i a new value: on the way to its bucket it changes places with one member of each that it crosses."""
    a, at = located(buckets, i)
    add(buckets, at, a, -1)
    buckets.client[i].value = value
    a, to = located(buckets, i)
    add(buckets, to, a, 1)
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
        a, at = located(buckets, i)
        buckets.bucket[at + 1].start += 1
        add(buckets, at, a, 1)
    for at in range(KEYS):
        buckets.bucket[at + 1].start += buckets.bucket[at].start


@compiled
def _sort(buckets):
    following = buckets.bucket["start"].copy()
    for i in range(buckets.client.size):
        _, at = located(buckets, i)
        buckets.client[following[at]].order = i
        following[at] += 1


@compiled
def _locate(buckets):
    """Fill `place`; return whether the order holds every client once, in its bucket."""
    n, last = buckets.client.size, 0
    for place in range(n):
        i = buckets.client[place].order
        if i < 0 or i >= n or buckets.client[i].place >= 0 or located(buckets, i)[1] < last:
            return False
        buckets.client[i].place, last = place, located(buckets, i)[1]
    return True
