"""What feedback does to the clients' values."""

import numpy as np

from turnout.samplers.large_scale.buckets import LARGEST, located, move
from turnout.samplers.large_scale.compiled import compiled
from turnout.samplers.large_scale.probabilities import chance


@compiled
def first_bad(client, ids, feedback, once):
    """Return the first wrong position and what is: 1 no such id, 2 bad feedback, 3 a repeated id, which `once` forbids."""
    seen, bad, kind = 0, -1, 0
    for k in range(ids.size):
        i = ids[k]
        kind = (
            1 if i < 0 or i >= client.size else 2 if not 0 <= feedback[k] < LARGEST else 3 if once and client[i].place < 0 else 0
        )
        if kind:
            bad = k
            break
        if once:
            # Repeats show by a mark that is taken off again below.
            client[i].place = ~client[i].place
            seen += 1
    for k in range(seen):
        client[ids[k]].place = ~client[ids[k]].place
    return bad, kind


@compiled
def accumulate(buckets, ids, feedback, unit, weight):
    """Add weight (pi_i / unit)^2 / p_i to the value of each draw, p_i as drawn; or return False if one is too large."""
    gains, highest = np.empty(ids.size), 0.0
    for k in range(ids.size):
        i = ids[k]
        a, at = located(buckets, i)
        gains[k] = weight * (feedback[k] / unit) ** 2 / chance(buckets.law[0], a, at & 1)
        highest = max(highest, buckets.client[i].value)
    if not highest + np.sum(gains) < LARGEST:
        return False
    for k in range(ids.size):
        move(buckets, ids[k], buckets.client[ids[k]].value + gains[k])
    return True


@compiled
def replace(buckets, ids, values):
    """Give clients new values."""
    for k in range(ids.size):
        move(buckets, ids[k], values[k])
