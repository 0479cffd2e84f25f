"""What the peers that train PyTorch modules have in common: the model, its loss and the clients' rows."""

import contextlib
import warnings

import torch
from torch import nn

from benchmarks.peers.serve import Workload

warnings.filterwarnings("ignore")


class Scores(nn.Linear):
    """Logistic regression without an intercept: one score for each row; weight decay of the optimiser regularises it."""

    def __init__(self, w: Workload):
        super().__init__(w.features.shape[-1], 1, bias=False)
        with torch.no_grad():
            self.weight.copy_(torch.tensor(w.start))

    def forward(self, rows):
        return super().forward(rows)[..., 0]


LOSS = nn.SoftMarginLoss
"""The mean of log(1 + exp(-label score))."""


def rows_of(w: Workload) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return features [s, d] and labels [s] of each client."""
    return list(zip(torch.tensor(w.features), torch.tensor(w.labels), strict=True))


def parameters(module: nn.Module):
    """Return the parameters of a module as one vector."""
    return nn.utils.parameters_to_vector(module.parameters()).detach().numpy()


def admit_torchvision() -> None:
    """Import torchvision from PyPI beside a PyTorch for the CPU, which lacks operators that it registers meta functions for."""
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
