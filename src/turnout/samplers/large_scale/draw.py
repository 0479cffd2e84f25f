"""Exact draws from the buckets."""

import numpy as np

from turnout.samplers.large_scale.buckets import edge, ends, located, total
from turnout.samplers.large_scale.compiled import compiled
from turnout.samplers.large_scale.probabilities import chance


def coins(buckets, size, generator):
    """Draw each client independently with its probability p_i; return the drawn ones and their p_i.

    In a bucket the most probable client could have p = u. Places as far apart as the heads of a coin with chance u are
    kept with probability p_i / u each: every place is then drawn with probability p_i, independently of all others.
    """
    gaps = generator.standard_exponential(2 * size + 64)
    while (found := _candidates(buckets, gaps))[0] < 0:
        gaps = np.concatenate((gaps, generator.standard_exponential(gaps.size)))
    many, places, most = found
    return _kept(buckets, places[:many], most, generator.random(many))


@compiled
def _candidates(buckets, gaps):
    """Return how many candidates there are, their places and their u; the number is -1 if it takes more gaps."""
    places, most, found = np.empty(gaps.size, np.int64), np.empty(gaps.size), 0
    bottom, top = ends(buckets)
    gap = 0
    for at in range(bottom, top + 1):
        place, end = buckets.bucket[at].start - 1, buckets.bucket[at + 1].start
        u = chance(buckets.law[0], edge(at), at & 1)
        if place + 1 == end or u <= 0:
            continue
        scale = -1.0 / np.log1p(-u)
        while True:
            if gap == gaps.size:
                return -1, places, most
            skipped = gaps[gap] * scale
            gap += 1
            if skipped >= end - 1 - place:
                break
            place += 1 + np.int64(skipped)
            places[found], most[found] = place, u
            found += 1
    return found, places, most


@compiled
def _kept(buckets, places, most, uniform):
    """Return the candidates that are kept, and their p_i."""
    ids, p, found = np.empty(places.size, np.int64), np.empty(places.size), 0
    # A loop of its own, so that the processor fetches many at a time.
    for k in range(places.size):
        ids[k] = buckets.client[places[k]].order
    for k in range(places.size):
        a, at = located(buckets, ids[k])
        p[k] = chance(buckets.law[0], a, at & 1)
    for k in range(places.size):
        keep = uniform[k] * most[k] < p[k]
        ids[found], p[found] = ids[k], p[k]
        found += keep
    return ids[:found].copy(), p[:found].copy()


@compiled
def repeated(buckets, size, theta, generator):
    """Draw K clients with replacement, with q_i = (1 - theta) a_i / sum_j a_j + theta / n at each draw; return them and q_i."""
    ids, q = np.empty(size, np.int64), np.empty(size)
    bottom, top = ends(buckets)
    sums, running = np.empty(top + 1 - bottom), 0.0
    for at in range(bottom, top + 1):
        running += total(buckets, at)
        sums[at - bottom] = running
    for k in range(ids.size):
        if generator.random() < theta:
            i = np.int64(generator.random() * buckets.client.size)
        else:
            place = np.searchsorted(sums, generator.random() * running, side="right")
            i = _within(buckets, bottom + min(place, sums.size - 1), generator)
        ids[k], q[k] = i, chance(buckets.law[0], located(buckets, i)[0], 0)
    return ids, q


@compiled
def _within(buckets, at, generator):
    """Draw a client of a bucket in proportion to its score."""
    first, count, most = buckets.bucket[at].start, buckets.bucket[at + 1].start - buckets.bucket[at].start, edge(at)
    while True:
        i = np.int64(buckets.client[first + np.int64(generator.random() * count)].order)
        if generator.random() * most < located(buckets, i)[0]:
            return i
