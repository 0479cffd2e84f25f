"""Checks of feedback, and the changes of the clients' values that it causes."""

import numpy as np

from turnout.samplers.large_scale.buckets import MAX_SCORE, locate, move
from turnout.samplers.large_scale.compiled import compiled
from turnout.samplers.large_scale.probabilities import probability_of


@compiled
def first_invalid(client, ids, feedback, once):
    """Return the first invalid position, or -1, and why: 1 no such id, 2 bad feedback, 3 a repeated id while `once`.

    Args:
        client: The clients, with their values.
        ids: Ids of the clients [k].
        feedback: pi_i [k].
        once: Whether an id may occur once only.
    """
    marked, bad, kind = 0, -1, 0
    for k in range(ids.size):
        i = ids[k]
        kind = 0
        if i < 0 or i >= client.size:
            kind = 1
        elif not 0 <= feedback[k] < MAX_SCORE:
            kind = 2
        elif once and client[i].place < 0:
            kind = 3
        if kind:
            bad = k
            break
        if once:
            # The mark reveals repeats; the loop below removes it.
            client[i].place = ~client[i].place
            marked += 1
    for k in range(marked):
        client[ids[k]].place = ~client[ids[k]].place
    return bad, kind


@compiled
def accumulate(buckets, ids, feedback, unit, weight):
    """Add weight (pi_i / unit)^2 / p_i to the value of each drawn client; return False, changing nothing, on overflow.

    Args:
        buckets: The clients in buckets.
        ids: Ids of the clients [k].
        feedback: pi_i [k].
        unit: G.
        weight: Factor of the squares.
    """
    gains, highest = np.empty(ids.size), 0.0
    for k in range(ids.size):
        i = ids[k]
        a, at = locate(buckets, i)
        gains[k] = weight * (feedback[k] / unit) ** 2 / probability_of(buckets.coefficients[0], a, at & 1)
        highest = max(highest, buckets.client[i].value)
    if not highest + np.sum(gains) < MAX_SCORE:
        return False
    for k in range(ids.size):
        move(buckets, ids[k], buckets.client[ids[k]].value + gains[k])
    return True


@compiled
def set_values(buckets, ids, values):
    """Set the values of the clients `ids`.

    Args:
        buckets: The clients in buckets.
        ids: Ids of the clients [k].
        values: Their new values [k].
    """
    for k in range(ids.size):
        move(buckets, ids[k], values[k])
