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

MANY = {"rounds": 5, "cohort": 50, "lr": 0.2, "batch": 7, "epochs": 4}

HEAVY = {"rounds": 1, "cohort": 4, "lr": 0.05, "batch": 20, "epochs": 1}


def measure() -> list[Line]:
    """Return ratios of seconds of a round: small networks on digits, and one whose batches take longer than all around them."""
    return [
        line("a round of small PyTorch clients over a plain loop", 1.15, digits(10), small(nn.Dropout(0.1)), DIGITS),
        line("a round of fifty small PyTorch clients, as one batch, over a plain loop", 1.0, digits(50), small(), MANY),
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


def digits(clients: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return clients' digits [clients, rows, 1, 8, 8] and their labels [clients, rows]."""
    images, labels = load_digits(return_X_y=True)
    rows = len(images) // clients
    images = torch.tensor(images[: rows * clients] / 16, dtype=torch.float32).reshape(rows, clients, 1, 8, 8)
    return images.transpose(0, 1).contiguous(), torch.tensor(labels[: rows * clients]).reshape(rows, clients).T.contiguous()


def small(*extra: nn.Module) -> nn.Module:
    """Return the network of the example."""
    torch.manual_seed(SEED)
    return nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), *extra, nn.Linear(144, 10))


def noise() -> tuple[torch.Tensor, torch.Tensor]:
    """Return eight clients' images [8, 100, 1, 28, 28] and labels [8, 100]."""
    generator = torch.Generator().manual_seed(SEED)
    return torch.randn(8, 100, 1, 28, 28, generator=generator), torch.randint(10, (8, 100), generator=generator)
