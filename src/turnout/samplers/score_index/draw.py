"""Exact random draws from the buckets."""

import numpy as np

from turnout.core.numba_functions import compiled
from turnout.samplers.score_index.buckets import bucket_sum, locate, occupied_range, upper_edge
from turnout.samplers.score_index.probabilities import probability_of


def draw_independent(buckets, size, generator):
    """Draw each client independently with its probability p_i; return the drawn ids and their p_i.

    Let u be the probability at the upper edge of a bucket. Candidates are the successes of Bernoulli(u) trials over the bucket's
    places, found by their geometric gaps; a candidate is accepted with probability p_i / u. Each client is then drawn with
    probability p_i, independently of all others.

    Args:
        buckets: The clients in buckets.
        size: K, the expected number of clients.
        generator: NumPy's random generator.
    """
    gaps = generator.standard_exponential(2 * int(size) + 64)
    while (result := _candidates(buckets, gaps))[0] < 0:
        gaps = np.concatenate((gaps, generator.standard_exponential(gaps.size)))
    count, places, upper = result
    return _accept(buckets, places[:count], upper, generator.random(count))


@compiled
def _candidates(buckets, gaps):
    """Return the number of candidates, their places and their u; the number is -1 if there are too few `gaps`."""
    places, upper, count = np.empty(gaps.size, np.int64), np.empty(gaps.size), 0
    bottom, top = occupied_range(buckets)
    gap = 0
    for at in range(bottom, top + 1):
        place, end = buckets.bucket[at].start - 1, buckets.bucket[at + 1].start
        u = probability_of(buckets.coefficients[0], upper_edge(at), at & 1)
        if place + 1 == end or u <= 0:
            continue
        scale = -1.0 / np.log1p(-u)
        while True:
            if gap == gaps.size:
                return -1, places, upper
            skipped = gaps[gap] * scale
            gap += 1
            if skipped >= end - 1 - place:
                break
            place += 1 + np.int64(skipped)
            places[count], upper[count] = place, u
            count += 1
    return count, places, upper


@compiled
def _accept(buckets, places, upper, uniform):
    """Return the accepted candidates and their p_i."""
    ids, p, count = np.empty(places.size, np.int64), np.empty(places.size), 0
    # Separate loops let the processor fetch many entries at the same time.
    for k in range(places.size):
        ids[k] = buckets.client[places[k]].order
    for k in range(places.size):
        a, at = locate(buckets, ids[k])
        p[k] = probability_of(buckets.coefficients[0], a, at & 1)
    for k in range(places.size):
        accepted = uniform[k] * upper[k] < p[k]
        ids[count], p[count] = ids[k], p[k]
        count += accepted
    return ids[:count].copy(), p[:count].copy()


@compiled
def draw_with_replacement(buckets, size, theta, generator):
    """Draw K = `size` times with q_i = (1 - theta) a_i / sum_j a_j + theta / n; return the ids, with repeats, and their q_i.

    Args:
        buckets: The clients in buckets.
        size: K, the number of draws.
        theta: Weight of the uniform distribution, in [0, 1].
        generator: NumPy's random generator.
    """
    ids, q = np.empty(size, np.int64), np.empty(size)
    bottom, top = occupied_range(buckets)
    sums, running, c = np.empty(top + 1 - bottom), 0.0, buckets.coefficients[0]
    for at in range(bottom, top + 1):
        running += (c.fresh_factor if at & 1 else c.known_factor) * bucket_sum(buckets, at)
        sums[at - bottom] = running
    for k in range(ids.size):
        if running == 0 or generator.random() < theta:
            i = np.int64(generator.random() * buckets.client.size)
        else:
            place = np.searchsorted(sums, generator.random() * running, side="right")
            i = _draw_from_bucket(buckets, bottom + min(place, sums.size - 1), generator)
        a, at = locate(buckets, i)
        ids[k], q[k] = i, probability_of(c, a, at & 1)
    return ids, q


@compiled
def _draw_from_bucket(buckets, at, generator):
    """Draw a client of bucket `at` with probability proportional to its score, by rejection."""
    first, count, upper = buckets.bucket[at].start, buckets.bucket[at + 1].start - buckets.bucket[at].start, upper_edge(at)
    while True:
        i = np.int64(buckets.client[first + np.int64(generator.random() * count)].order)
        if generator.random() * upper < locate(buckets, i)[0]:
            return i
