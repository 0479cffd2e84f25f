"""FedAvg on a convolutional network by PyTorch clients, each with a DataLoader of its own, in the engine `nodes`."""

from collections.abc import Callable

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import turnout as t
from benchmarks.timing import seconds
from turnout.core.seeds import Seeds
from turnout.problems.optimum import Optimum
from turnout.problems.oracles.torch_module import TorchOracle, parameters_of
from turnout.runs.session import Session
from turnout.runs.setup import scope


def nodes(images: torch.Tensor, labels: torch.Tensor, network: nn.Module, settings: dict) -> tuple[Callable, Callable]:
    """Return what plays `settings["rounds"]` rounds and what evaluates nothing; images [clients, rows, 1, h, w]."""

    def client(i: int) -> TorchOracle:
        return TorchOracle(network, DataLoader(TensorDataset(images[i], labels[i]), batch_size=len(labels[i])), loss)

    problem = t.Remote.of(parameters_of(network), client, sizes=[len(part) for part in labels])
    algorithm = t.FedAvg(t.Nice(settings["cohort"]), lr=settings["lr"], batch=settings["batch"], epochs=settings["epochs"])
    # Runs want a metric, and of those this one asks nothing of the clients.
    session = Session(
        algorithm, problem, seeds=Seeds.of(0), rounds=10**6, every=settings["rounds"], metrics=("distance",),
        optimum=Optimum(problem.initial, 0.0), engine="nodes", precision="single",
    )  # fmt: skip

    def play() -> None:
        session.progress, _ = session.engine.advance(session.progress, session.rounds, 1)

    def timed() -> float:
        with scope("single"):
            return seconds(play)

    return timed, lambda: None


def loss(module: nn.Module, batch) -> torch.Tensor:
    """Return the mean cross-entropy over a batch."""
    images, labels = batch
    return nn.functional.cross_entropy(module(images), labels)
