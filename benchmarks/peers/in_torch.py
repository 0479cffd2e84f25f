"""What the peers that train PyTorch modules have in common: the model, its loss and the clients' rows."""

import contextlib
import warnings
from math import isqrt

import torch
from torch import nn

from benchmarks.femnist_bare import network
from benchmarks.peers.serve import Workload

warnings.filterwarnings("ignore")


def model_of(w: Workload) -> nn.Module:
    """Return the network, or one score for each row; weight decay of the optimiser regularises."""
    width = w.features.shape[-1]
    model = network(isqrt(width), w.classes) if w.classes else nn.Sequential(nn.Linear(width, 1, bias=False), nn.Flatten(0))
    nn.utils.vector_to_parameters(torch.tensor(w.start), model.parameters())
    return model


def loss_of(w: Workload) -> nn.Module:
    """Return the cross-entropy, or the mean of log(1 + exp(-label score))."""
    return nn.CrossEntropyLoss() if w.classes else nn.SoftMarginLoss()


def rows_of(w: Workload) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return features and labels of each client."""
    features, labels = torch.tensor(w.features), torch.tensor(w.labels)
    if w.classes:
        side = isqrt(features.shape[-1])
        features, labels = features.reshape(*labels.shape, 1, side, side).float() / 255, labels.long()
    return list(zip(features, labels, strict=True))


class Batches:
    """The batches of a client in the place of a DataLoader, which takes longer than a step: shuffled, or all rows as one."""

    def __init__(self, rows: tuple[torch.Tensor, torch.Tensor], size: int):
        self.rows, self.size = rows, size

    def __len__(self) -> int:
        return -(-len(self.rows[0]) // self.size)

    def __iter__(self):
        if len(self) == 1:
            yield self.rows
            return
        for numbers in torch.randperm(len(self.rows[0])).split(self.size):
            yield tuple(leaf[numbers] for leaf in self.rows)


def train(model: nn.Module, w: Workload, batches: Batches) -> None:
    """Take the local steps of one client, as a program of PyTorch does."""
    optimizer, loss = torch.optim.SGD(model.parameters(), lr=w.lr, weight_decay=w.mu), loss_of(w)
    for _ in range(w.epochs):
        for features, labels in batches:
            optimizer.zero_grad()
            loss(model(features), labels).backward()
            optimizer.step()


def parameters(model: nn.Module):
    """Return the parameters of a module as one vector."""
    return nn.utils.parameters_to_vector(model.parameters()).detach().numpy()


def admit_torchvision() -> None:
    """Import torchvision from PyPI beside a PyTorch for the CPU, which lacks operators that it registers meta functions for."""
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
