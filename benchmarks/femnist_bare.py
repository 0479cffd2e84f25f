"""Federated averaging of a convolutional network in PyTorch alone, as one would write it for one use: by client, and batched."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from benchmarks.timing import SEED, seconds

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

if DEVICE == "cuda":
    # What JAX does with single precision by itself: the tensor cores round factors of products to 19 bits.
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True


def network(side: int, classes: int) -> nn.Module:
    """Return the network `femnist-cnn` for images of `side` x `side` pixels."""
    torch.manual_seed(SEED)
    return nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.ReLU(), nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * (side - 8) ** 2, 128), nn.ReLU(), nn.Linear(128, classes),
    )  # fmt: skip


def by_client(images: torch.Tensor, labels: torch.Tensor, model: nn.Module, settings: dict) -> tuple[Callable, Callable]:
    """Return what plays `settings["rounds"]` rounds, one client after another, and what evaluates f.

    Images are [clients, rows, 1, h, w].
    """
    images, labels, model = images.to(DEVICE), labels.to(DEVICE), model.to(DEVICE)
    loss, generator = nn.CrossEntropyLoss(), np.random.default_rng(SEED)
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"])

    def one_round() -> None:
        start = {name: leaf.clone() for name, leaf in model.state_dict().items()}
        mean = {name: torch.zeros_like(leaf) for name, leaf in start.items()}
        for client in generator.choice(len(images), settings["cohort"], replace=False):
            model.load_state_dict(start)
            for _ in range(settings["epochs"]):
                for numbers in torch.randperm(images.shape[1], device=DEVICE).split(settings["batch"]):
                    optimizer.zero_grad()
                    loss(model(images[client, numbers]), labels[client, numbers]).backward()
                    optimizer.step()
            for name, leaf in model.state_dict().items():
                mean[name] += leaf / settings["cohort"]
        model.load_state_dict(mean)

    @torch.no_grad()
    def evaluate() -> None:
        for client in range(len(images)):
            loss(model(images[client]), labels[client])

    return lambda: seconds(lambda: play(one_round, settings["rounds"])), evaluate


def batched(images: torch.Tensor, labels: torch.Tensor, model: nn.Module, settings: dict) -> tuple[Callable, Callable]:
    """Return the same with all clients of a cohort at once, by `torch.func.vmap`."""
    images, labels, model = images.to(DEVICE), labels.to(DEVICE), model.to(DEVICE)
    generator, (_, rows) = np.random.default_rng(SEED), labels.shape
    mean = {name: leaf.detach() for name, leaf in model.named_parameters()}

    def loss(parameters, batch, targets):
        return nn.functional.cross_entropy(torch.func.functional_call(model, parameters, (batch,)), targets)

    gradient = torch.func.vmap(torch.func.grad(loss))

    def one_round() -> None:
        nonlocal mean
        cohort = torch.as_tensor(generator.choice(len(images), settings["cohort"], replace=False), device=DEVICE)[:, None]
        local = {name: leaf.expand(len(cohort), *leaf.shape) for name, leaf in mean.items()}
        for numbers in torch.rand(len(cohort), rows, device=DEVICE).argsort(1).split(settings["batch"], 1):
            change = gradient(local, images[cohort, numbers], labels[cohort, numbers])
            local = {name: leaf - settings["lr"] * change[name] for name, leaf in local.items()}
        mean = {name: leaf.mean(0) for name, leaf in local.items()}

    return lambda: seconds(lambda: play(one_round, settings["rounds"])), lambda: None


def play(one_round: Callable, rounds: int) -> None:
    """Play rounds and wait until the device is done."""
    for _ in range(rounds):
        one_round()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
