"""Federated averaging on logistic regression in PyTorch, client by client, as one would write it for one use."""

import numpy as np
import torch

from benchmarks.femnist_bare import DEVICE, play
from benchmarks.rounds import LR, STEPS
from benchmarks.timing import SEED, seconds


def played(features, labels, mu: float, cohort: int, rounds: int) -> float:
    """Return the seconds that some rounds take; features are [n, s, d], labels [n, s]."""
    rows, signs = (torch.tensor(np.asarray(leaf), device=DEVICE) for leaf in (features, labels))
    x, generator = torch.zeros(rows.shape[-1], device=DEVICE), np.random.default_rng(SEED)

    def one_round() -> None:
        nonlocal x
        mean = torch.zeros_like(x)
        for client in generator.choice(len(rows), cohort, replace=False):
            y = x.clone().requires_grad_()
            for _ in range(STEPS):
                loss = torch.nn.functional.softplus(-signs[client] * (rows[client] @ y)).mean() + mu / 2 * (y @ y)
                (gradient,) = torch.autograd.grad(loss, y)
                with torch.no_grad():
                    y -= LR * gradient
            mean += y.detach() / cohort
        x = mean

    return seconds(lambda: play(one_round, rounds))
