"""Federated averaging on logistic regression in PyTorch, client by client, as one would write it for one use."""

import numpy as np
import torch

from benchmarks.femnist_bare import DEVICE, play
from benchmarks.peers.torch_loop import averaged
from benchmarks.rounds import LR, STEPS
from benchmarks.timing import SEED, seconds


def played(features, labels, mu: float, cohort_size: int, rounds: int) -> float:
    """Return the seconds that some rounds take; features are [n, s, d], labels [n, s]."""
    rows, signs = (torch.tensor(np.asarray(leaf), device=DEVICE) for leaf in (features, labels))
    x, generator = torch.zeros(rows.shape[-1], device=DEVICE), np.random.default_rng(SEED)

    def one_round() -> None:
        nonlocal x
        cohort = generator.choice(len(rows), cohort_size, replace=False)
        x = averaged(x, rows, signs, cohort, LR, STEPS, mu)

    return seconds(lambda: play(one_round, rounds))
