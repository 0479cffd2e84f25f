"""Checks of new scores, and the moves between buckets that they cause."""

from turnout.core.numba_functions import compiled
from turnout.samplers.score_index.buckets import MAX_SCORE, move

OUTSIDE, INVALID, TWICE = 1, 2, 3
"""What is wrong: an id that no client has, a score that is none, a client that comes twice."""


@compiled
def first_invalid(client, ids, scores):
    """Return the first invalid position, or -1, and what is wrong there.

    Args:
        client: The clients.
        ids: Ids of the clients [k].
        scores: Their new scores [k].
    """
    marked, bad, kind = 0, -1, 0
    for k in range(ids.size):
        i = ids[k]
        kind = 0
        if i < 0 or i >= client.size:
            kind = OUTSIDE
        elif not 0 <= scores[k] < MAX_SCORE:
            kind = INVALID
        elif client[i].place < 0:
            kind = TWICE
        if kind:
            bad = k
            break
        # The mark reveals repeats; the loop below removes it.
        client[i].place = ~client[i].place
        marked += 1
    for k in range(marked):
        client[ids[k]].place = ~client[ids[k]].place
    return bad, kind


@compiled
def set_scores(buckets, ids, scores):
    """Set the scores of the clients `ids`.

    Args:
        buckets: The clients in buckets.
        ids: Ids of the clients [k].
        scores: Their new scores [k].
    """
    for k in range(ids.size):
        move(buckets, ids[k], scores[k])
