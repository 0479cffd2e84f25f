"""Whether a peer's answer is right: f at its parameters against f at turnout's after as many rounds."""

from collections.abc import Sequence
from statistics import mean, stdev

import numpy as np

from benchmarks.peers.serve import Workload

SAME = 1e-4
"""How far f may be from turnout's with the same cohorts, as a part of what the rounds have gained."""

SEEDS, DEVIATIONS = 20, 5.0
"""With cohorts of its own: how many seeds turnout plays, and how many of their standard deviations f may be from their mean."""


def value(w: Workload, x: Sequence[float]) -> float:
    """Return f, the mean loss over all rows and the regularisation, in double precision."""
    at = np.asarray(x, float)
    return float(np.logaddexp(0, -w.labels * (w.features @ at)).mean() + w.mu / 2 * (at @ at))


def apart(f: float, start: float, references: Sequence[float]) -> float:
    """Return how far f is from turnout's value, 1 being the most that is allowed; several values are those of several seeds."""
    if len(references) == 1:
        return abs(f - references[0]) / (SAME * abs(start - references[0]))
    return abs(f - mean(references)) / (DEVIATIONS * stdev(references))
