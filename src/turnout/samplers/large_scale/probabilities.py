"""From scores to probabilities: the threshold is found among O(K) scores and the buckets' sums.

The law is p = keep min(1, t / nu) + floor, t = known a + lift for a score a, or fresh a + lift for that of a fresh client; where
t = 0, `rest` takes the place of min(1, t / nu).
"""

import numpy as np

from turnout.samplers.large_scale.buckets import edge, ends, located, total
from turnout.samplers.large_scale.compiled import compiled

WIDTH = 1.25
"""The ratio of the edges of a bucket is at most this."""


@compiled
def chance(law, a, fresh):
    """Return the probability that goes with the score a."""
    t = (law.fresh if fresh else law.known) * a + law.lift
    p = law.rest if t == 0 else 1.0 if t >= law.nu else t / law.nu
    return min(1.0, law.keep * p + law.floor)


@compiled
def chances(buckets, ids):
    """Return the probabilities of some clients."""
    p = np.empty(ids.size)
    for k in range(ids.size):
        a, at = located(buckets, ids[k])
        p[k] = chance(buckets.law[0], a, at & 1)
    return p


@compiled
def renew(buckets, size, theta, mixes_before_cap, replacement, fresh):
    """Set the law for K = `size`, without a cap for draws with `replacement`; `fresh` is the factor of the fresh scores."""
    n, law = buckets.client.size, buckets.law[0]
    bottom, top = ends(buckets)
    everything = 0.0
    for at in range(bottom, top + 1):
        everything += (fresh if at & 1 else 1.0) * total(buckets, at)
    law.known, law.fresh, law.lift, law.rest = 1.0, fresh, 0.0, 1.0 / n
    law.keep, law.floor = 1.0 - theta, theta * (1.0 if replacement else size) / n
    if mixes_before_cap:
        law.known, law.fresh, law.lift = 1.0 - theta, (1.0 - theta) * fresh, theta * everything / n
        law.keep, law.floor = 1.0, 0.0
    positive = n if law.lift > 0 else n - buckets.bucket[2].start
    largest = max(law.known, law.fresh) * edge(top) + law.lift
    if replacement:
        law.nu = everything
    elif positive <= size:
        law.nu, law.rest = 0.0, (size - positive) / max(1, n - positive)
    elif largest <= everything / size:
        law.nu, law.rest = everything / size, 0.0
    else:
        rest, heads = _divided(buckets, size, law, bottom, top)
        law.nu, law.rest = _threshold(rest, heads, size), 0.0


@compiled
def _divided(buckets, size, law, bottom, top):
    """Return the sum of t over buckets where none can have p = 1, and the fewer than 2.5 K other t in increasing order.

    Where one client has p = 1, all in its bucket and in those above have p > 1 / WIDTH, and as p sums to K these are fewer than
    WIDTH K. This holds for known and for fresh clients alike.
    """
    lowest, many = np.array([top + 1, top + 1]), np.zeros(2, np.int64)
    closed = np.zeros(2, np.bool_)
    for at in range(top, bottom - 1, -1):
        kind, count = at & 1, buckets.bucket[at + 1].start - buckets.bucket[at].start
        closed[kind] |= many[kind] + count >= WIDTH * size
        if not closed[kind]:
            lowest[kind] = at
            many[kind] += count
    rest, heads, found = 0.0, np.empty(many[0] + many[1]), 0
    for at in range(bottom, top + 1):
        factor = law.fresh if at & 1 else law.known
        if at < lowest[at & 1]:
            rest += factor * total(buckets, at) + law.lift * (buckets.bucket[at + 1].start - buckets.bucket[at].start)
            continue
        for place in range(buckets.bucket[at].start, buckets.bucket[at + 1].start):
            heads[found] = factor * located(buckets, buckets.client[place].order)[0] + law.lift
            found += 1
    return rest, np.sort(heads)


@compiled
def _threshold(rest, heads, size):
    """Return nu with sum_i min(1, t_i / nu) = K: the k largest have p = 1 while the largest of the others exceeds their share."""
    sums = np.empty(heads.size + 1)
    sums[0] = rest
    for k in range(heads.size):
        sums[k + 1] = sums[k] + heads[k]
    left, places = heads.size, size
    while left > 0 and heads[left - 1] * places > sums[left]:
        left -= 1
        places -= 1.0
    return sums[left] / places
