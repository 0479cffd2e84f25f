"""Rounds of PyTorch clients in the engine `nodes`, beside the loop that one would write by hand."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from benchmarks.femnist_bare import by_client, network
from benchmarks.femnist_torch import nodes
from benchmarks.timing import SEED, Line, alternate, ratio

DIGITS = {"rounds": 15, "cohort": 4, "lr": 0.2, "batch": 20, "epochs": 2}
"""Settings of the example `examples/torch/digits.py`."""

HEAVY = {"rounds": 1, "cohort": 4, "lr": 0.05, "batch": 20, "epochs": 1}


def measure() -> list[Line]:
    """Return ratios of seconds of a round: a small network on digits, and one whose batches take longer than all around them."""
    return [
        line("a round of small PyTorch clients over a plain loop", 1.15, digits(), small(), DIGITS),
        line("a round of heavy PyTorch clients over a plain loop", 1.15, noise(), network(28, 10), HEAVY),
    ]


def line(what: str, bar: float, rows: tuple[torch.Tensor, torch.Tensor], module: nn.Module, settings: dict) -> Line:
    """Return the ratio of the seconds that rounds take in the engine to those of the loop."""
    played, _ = nodes(*rows, module, settings)
    plain, _ = by_client(*rows, module, settings)
    taken = alternate({"turnout": played, "plain": plain})
    each = 1000 * np.median(taken["turnout"]) / settings["rounds"]
    return Line(
        "torch-clients",
        what,
        ratio(taken, "turnout", "plain"),
        bar,
        note=f"{each:.3g} ms a round",
        settings=settings,
        timings=taken,
    )


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return ten clients' digits [10, 179, 1, 8, 8] and their labels [10, 179]."""
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images[:1790] / 16, dtype=torch.float32)
    return images.reshape(179, 10, 1, 8, 8).transpose(0, 1).contiguous(), torch.tensor(labels[:1790]).reshape(
        179, 10
    ).T.contiguous()


def small() -> nn.Module:
    """Return the network of the example."""
    torch.manual_seed(SEED)
    return nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.1), nn.Linear(144, 10))


def noise() -> tuple[torch.Tensor, torch.Tensor]:
    """Return eight clients' images [8, 100, 1, 28, 28] and labels [8, 100]."""
    generator = torch.Generator().manual_seed(SEED)
    return torch.randn(8, 100, 1, 28, 28, generator=generator), torch.randint(10, (8, 100), generator=generator)
