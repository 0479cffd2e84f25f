"""A convolutional network: rounds of federated averaging against a bare PyTorch loop, each in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable
from statistics import median

import numpy as np

from benchmarks.memory import peak_bytes
from benchmarks.timing import REPEATS, SEED, Line, alternate, ratio, seconds

CLIENTS, ROWS, SIDE, CLASSES, COHORT, BATCH, LR = 100, 100, 28, 62, 10, 20, 0.01
ROUNDS = 3
"""Rounds of one timing."""

BARS = {"compiled": 1.7, "nodes": 1.05}
"""Who is measured against the bare loop, and how many times its time each may take at most."""


def measure() -> list[Line]:
    """Return the time of a round over the bare loop's, and the memory of the process, with evaluation over all clients."""
    settings = {"clients": CLIENTS, "rows": ROWS, "side": SIDE, "classes": CLASSES, "cohort": COHORT, "batch": BATCH, "epochs": 1,
                "lr": LR, "rounds": ROUNDS, "precision": "single", "seeds": [SEED]}  # fmt: skip
    lines, peaks = [], {}
    for name, bar in BARS.items():
        # Two at a time: what a third process leaves behind would be paid by the one that follows it.
        sides = {side: Side(side) for side in ("bare", name)}
        taken = alternate({side: process.play for side, process in sides.items()}, REPEATS)
        peaks |= {side: process.close() for side, process in sides.items()}
        each = {side: median(times) / ROUNDS for side, times in taken.items()}
        note = f"{each[name]:.2f} against {each['bare']:.2f} seconds a round"
        lines.append(Line("femnist", f"{name}: a round over a bare PyTorch loop's", ratio(taken, name, "bare"), bar, note=note,
                          settings=settings, timings=taken))  # fmt: skip
    lines.append(Line("femnist", "compiled: memory of the process at its peak", peaks["compiled"] / 1e9, 1.0, unit="GB",
                      note="f and accuracy over all clients included", settings={**settings, "peaks": peaks}))  # fmt: skip
    return lines


class Side:
    """A process that plays rounds when told; PyTorch and JAX in one process would keep each other from the processor."""

    def __init__(self, name: str):
        command = [sys.executable, "-m", "benchmarks.femnist", name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def play(self) -> float:
        """Return the seconds that some rounds took."""
        return self._ask("play")

    def close(self) -> float:
        """Let f be evaluated once, end the process, and return its peak memory in bytes."""
        peak = self._ask("evaluate")
        self.process.communicate()
        return peak

    def _ask(self, what: str) -> float:
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return images [rows, pixels] as bytes and labels [rows] of all clients, client by client."""
    generator = np.random.default_rng(SEED)
    images = generator.integers(256, size=(CLIENTS * ROWS, SIDE**2), dtype=np.uint8)
    return images, generator.integers(CLASSES, size=CLIENTS * ROWS).astype(np.int32)


def compiled() -> tuple[Callable, Callable]:
    """Return what plays ROUNDS rounds in the compiled engine and what evaluates f."""
    import turnout as t
    from turnout.core.seeds import Seeds
    from turnout.runs.session import Session

    def problem(images, labels):
        clients = len(images) // ROWS
        return t.Neural(
            (images, labels), np.arange(clients + 1) * ROWS, t.Population(count=clients), mu=0.0, classes=CLASSES,
            model="femnist-cnn", shape=(SIDE, SIDE, 1),
        )  # fmt: skip

    images, labels = data()
    everyone, one = problem(images, labels), problem(images[:ROWS], labels[:ROWS])
    algorithm, seeds = t.FedAvg(t.Nice(COHORT), lr=LR, batch=BATCH, epochs=1), Seeds.of(SEED)

    def play() -> float:
        # A run has to have some metric, so that one client's rows are tested with at the end.
        chunks = Session(algorithm, everyone, seeds=seeds, rounds=ROUNDS, every=ROUNDS, metrics=("test_value",), test=one).play()
        next(chunks)
        return seconds(lambda: list(chunks))

    def evaluate() -> float:
        return seconds(Session(algorithm, everyone, seeds=seeds, rounds=0, metrics=("value", "accuracy")).run)

    return play, evaluate


def in_torch() -> tuple:
    """Return images [clients, rows, 1, h, w], labels [clients, rows] and the network, for PyTorch."""
    import torch
    from torch import nn

    images, labels = data()
    images = torch.tensor(images).reshape(CLIENTS, ROWS, 1, SIDE, SIDE).float() / 255
    labels = torch.tensor(labels).long().reshape(CLIENTS, ROWS)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.ReLU(), nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(6400, 128), nn.ReLU(), nn.Linear(128, CLASSES),
    )  # fmt: skip
    return images, labels, model


def nodes() -> tuple[Callable, Callable]:
    """Return what plays ROUNDS rounds of PyTorch clients in the engine `nodes`."""
    from benchmarks import femnist_torch

    settings = {"rounds": ROUNDS, "cohort": COHORT, "lr": LR, "batch": BATCH}
    return femnist_torch.nodes(*in_torch(), settings)


def bare() -> tuple[Callable, Callable]:
    """Return what plays ROUNDS rounds in PyTorch, as one would write them for one use, and what evaluates f."""
    import torch
    from torch import nn

    images, labels, model = in_torch()
    loss, optimizer, generator = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=LR), np.random.default_rng(SEED)

    def one_round() -> None:
        start = {name: leaf.clone() for name, leaf in model.state_dict().items()}
        mean = {name: torch.zeros_like(leaf) for name, leaf in start.items()}
        for client in generator.choice(CLIENTS, COHORT, replace=False):
            model.load_state_dict(start)
            for numbers in torch.randperm(ROWS).split(BATCH):
                optimizer.zero_grad()
                loss(model(images[client, numbers]), labels[client, numbers]).backward()
                optimizer.step()
            for name, leaf in model.state_dict().items():
                mean[name] += leaf / COHORT
        model.load_state_dict(mean)

    def play() -> float:
        return seconds(lambda: [one_round() for _ in range(ROUNDS)])

    @torch.no_grad()
    def evaluate() -> None:
        for client in range(CLIENTS):
            loss(model(images[client]), labels[client])

    return play, evaluate


SIDES = {"bare": bare, "compiled": compiled, "nodes": nodes}
"""Who can be told to play."""


def serve(name: str) -> None:
    """Answer each line from the standard input with seconds, or with the peak memory in bytes."""
    play, evaluate = SIDES[name]()
    for line in sys.stdin:
        if line.strip() == "play":
            answer = play()
        else:
            evaluate()
            answer = peak_bytes()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
