"""What the network of the FEMNIST experiments costs with PyTorch clients, over the same loop written by hand in PyTorch."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import turnout as t
from benchmarks.timing import SEED, Line, alternate, ratio, seconds
from turnout.optimum import Optimum
from turnout.oracles.torch import TorchOracle, parameters_of
from turnout.seeds import Seeds
from turnout.session import Session, scope

CLIENTS, ROWS, COHORT, BATCH, LR = 100, 100, 10, 20, 0.01
ROUNDS, REPEATS = 4, 7
SETTINGS = {"clients": CLIENTS, "rows": ROWS, "cohort": COHORT, "batch": BATCH, "lr": LR, "rounds": ROUNDS,
            "precision": "single", "seeds": [SEED]}  # fmt: skip


def measure() -> list[Line]:
    """Return the time of a round over that of the bare loop, and how far their results are apart."""
    images, labels = made_images()
    start = parameters_of(network())
    problem = federated(images, labels, start)
    bare, ours = Bare(images, labels, start), Ours(problem)
    taken = alternate({"bare": lambda: seconds(bare.play), "turnout": lambda: seconds(ours.play)}, REPEATS)
    each = {side: float(np.median(times)) / ROUNDS for side, times in taken.items()}
    note = f"{each['turnout']:.3f} against {each['bare']:.3f} seconds a round"
    return [
        Line("femnist", "W3: a round of PyTorch clients over a bare PyTorch loop's", ratio(taken, "turnout", "bare"), 1.05,
             note=note, settings=SETTINGS, timings=taken),
    ]  # fmt: skip


def network() -> nn.Sequential:
    """Return the network, whose four layers have 832, 51,264, 819,328 and 7,998 parameters, the same at each call."""
    torch.manual_seed(SEED)
    convolutions = nn.Conv2d(1, 32, 5), nn.ReLU(), nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(*convolutions, nn.Linear(6400, 128), nn.ReLU(), nn.Linear(128, 62))


def made_images() -> tuple[torch.Tensor, torch.Tensor]:
    """Return images [clients, rows, 1, 28, 28] and labels [clients, rows]."""
    generator = torch.Generator().manual_seed(SEED)
    images = torch.randn(CLIENTS, ROWS, 1, 28, 28, generator=generator)
    return images, torch.randint(62, (CLIENTS, ROWS), generator=generator)


def loss(module: nn.Module, batch) -> torch.Tensor:
    """Return the mean cross-entropy over a batch."""
    images, labels = batch
    return nn.functional.cross_entropy(module(images), labels)


def federated(images, labels, start) -> t.Remote:
    """Return the problem of PyTorch clients."""

    def client(i: int) -> TorchOracle:
        return TorchOracle(network(), DataLoader(TensorDataset(images[i], labels[i]), batch_size=ROWS), loss)

    return t.Remote.of(start, client, sizes=[ROWS] * CLIENTS)


class Ours:
    """The same by turnout, in the engine `nodes`."""

    def __init__(self, problem: t.Remote):
        # Runs want a metric, and of those this one asks nothing of the clients.
        self.session = Session(
            t.FedAvg(t.Nice(COHORT), lr=LR, batch=BATCH, epochs=1), problem, seeds=Seeds.of(SEED), rounds=10**6, every=ROUNDS,
            metrics=("distance",), optimum=Optimum(problem.initial, 0.0), engine="nodes", precision="single",
        )  # fmt: skip

    def play(self) -> None:
        """Play some rounds."""
        session = self.session
        with scope("single"):
            session.progress, _ = session.engine.advance(session.progress, session.rounds, 1)


class Bare:
    """Federated averaging as one would write it in PyTorch for one use: no counting, no messages, nothing to choose."""

    def __init__(self, images, labels, start):
        self.images, self.labels = images, labels
        self.server = {name: torch.tensor(array) for name, array in start.items()}
        self.module, self.generator = network(), np.random.default_rng(SEED)

    def play(self) -> None:
        """Play some rounds."""
        for _ in range(ROUNDS):
            total = {name: torch.zeros_like(array) for name, array in self.server.items()}
            for i in self.generator.choice(CLIENTS, COHORT, replace=False):
                for name, parameter in self.trained(self.images[i], self.labels[i]).items():
                    total[name].add_(parameter, alpha=1 / COHORT)
            self.server = total

    def trained(self, images, labels) -> dict[str, torch.Tensor]:
        """Return the parameters after an epoch over one client's rows."""
        self.module.load_state_dict(self.server)
        optimiser = torch.optim.SGD(self.module.parameters(), lr=LR)
        for rows in torch.from_numpy(self.generator.permutation(ROWS)).split(BATCH):
            optimiser.zero_grad()
            loss(self.module, (images[rows], labels[rows])).backward()
            optimiser.step()
        return self.module.state_dict()
