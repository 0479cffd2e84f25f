"""Whether a peer's answer is right: f at its parameters against f at turnout's after as many rounds."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean, stdev

import numpy as np

from benchmarks.peers.serve import Workload

SAME = 1e-4
"""How far f may be from turnout's with the same cohorts, as a part of what the rounds have gained."""

SEEDS, NETWORK_SEEDS, DEVIATIONS = 20, 12, 5.0
"""With other cohorts or batches: how many seeds turnout plays, and how many standard deviations f may be from their mean."""

TESTED = 10
"""Clients whose images the loss of a network is the mean over."""


def value(w: Workload, x: Sequence[float]) -> float:
    """Return f, the mean loss over all rows and the regularisation, in double precision; of a network over some clients."""
    if w.classes:
        return _network(w, np.asarray(x, np.float32))
    at = np.asarray(x, float)
    return float(np.logaddexp(0, -w.labels * (w.features @ at)).mean() + w.mu / 2 * (at @ at))


def apart(f: float, start: float, references: Sequence[float]) -> float:
    """Return how far f is from turnout's value, 1 being the most that is allowed; several values are those of several seeds."""
    if len(references) == 1:
        return abs(f - references[0]) / (SAME * abs(start - references[0]))
    return abs(f - mean(references)) / (DEVIATIONS * stdev(references))


def _network(w: Workload, x: np.ndarray) -> float:
    import torch

    from benchmarks.peers.in_torch import loss_of, model_of, rows_of

    some = replace(w, features=w.features[:TESTED], labels=w.labels[:TESTED], start=x)
    model, loss = model_of(some), loss_of(some)
    with torch.no_grad():
        return float(np.mean([loss(model(images), labels).item() for images, labels in rows_of(some)]))
