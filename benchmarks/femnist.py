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
    """A process that plays rounds when told; PyTorch and JAX in one process would keep each other from the processor.

    Args:
        name: Who plays, of `SIDES`.
        clients: How many clients there are.
        cohort: How many of them a round trains.
    """

    def __init__(self, name: str, clients: int = CLIENTS, cohort: int = COHORT):
        command = [sys.executable, "-m", "benchmarks.femnist", name, str(clients), str(cohort)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def play(self) -> float:
        """Return the seconds that some rounds took."""
        return self._ask("play")

    def close(self, what: str = "evaluate") -> float:
        """Evaluate f once, end the process, and return its peak memory in bytes; with "device", that of the accelerator."""
        peak = self._ask(what)
        self.process.communicate()
        return peak

    def _ask(self, what: str) -> float:
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def data(clients: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images [rows, pixels] as bytes and labels [rows] of all clients, client by client."""
    generator = np.random.default_rng(SEED)
    images = generator.integers(256, size=(clients * ROWS, SIDE**2), dtype=np.uint8)
    return images, generator.integers(CLASSES, size=clients * ROWS).astype(np.int32)


def compiled(clients: int = CLIENTS, cohort: int = COHORT, precision: str = "single") -> tuple[Callable, Callable]:
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

    images, labels = data(clients)
    everyone, one = problem(images, labels), problem(images[:ROWS], labels[:ROWS])
    algorithm, seeds = t.FedAvg(t.Nice(cohort), lr=LR, batch=BATCH, epochs=1), Seeds.of(SEED)
    options = {"seeds": seeds, "precision": precision}

    def play() -> float:
        # A run has to have some metric, so that one client's rows are tested with at the end.
        chunks = Session(algorithm, everyone, rounds=ROUNDS, every=ROUNDS, metrics=("test_value",), test=one, **options).play()
        next(chunks)
        return seconds(lambda: list(chunks))

    def evaluate() -> float:
        return seconds(Session(algorithm, everyone, rounds=0, metrics=("value", "accuracy"), **options).run)

    return play, evaluate


def mixed(clients: int, cohort: int) -> tuple[Callable, Callable]:
    """Return the same, with clients that compute in bfloat16."""
    return compiled(clients, cohort, "mixed")


def in_torch(clients: int, cohort: int) -> tuple:
    """Return images [clients, rows, 1, h, w], labels [clients, rows], the network and the settings, for PyTorch."""
    import torch

    from benchmarks.femnist_bare import network

    images, labels = data(clients)
    images = torch.tensor(images).reshape(clients, ROWS, 1, SIDE, SIDE).float() / 255
    labels = torch.tensor(labels).long().reshape(clients, ROWS)
    return images, labels, network(SIDE, CLASSES), {"rounds": ROUNDS, "cohort": cohort, "lr": LR, "batch": BATCH, "epochs": 1}


def nodes(clients: int, cohort: int) -> tuple[Callable, Callable]:
    """Return what plays ROUNDS rounds of PyTorch clients in the engine `nodes`."""
    from benchmarks import femnist_torch

    return femnist_torch.nodes(*in_torch(clients, cohort))


def bare(clients: int, cohort: int) -> tuple[Callable, Callable]:
    """Return what plays ROUNDS rounds in PyTorch, one client after another, and what evaluates f."""
    from benchmarks import femnist_bare

    return femnist_bare.by_client(*in_torch(clients, cohort))


def batched(clients: int, cohort: int) -> tuple[Callable, Callable]:
    """Return what plays ROUNDS rounds in PyTorch, all clients of a cohort at once."""
    from benchmarks import femnist_bare

    return femnist_bare.batched(*in_torch(clients, cohort))


SIDES = {"bare": bare, "batched": batched, "compiled": compiled, "mixed": mixed, "nodes": nodes}
"""Who can be told to play."""


def serve(name: str, clients: int, cohort: int) -> None:
    """Answer each line from the standard input with seconds, or with the peak memory in bytes."""
    play, evaluate = SIDES[name](clients, cohort)
    for line in sys.stdin:
        if line.strip() == "play":
            answer = play()
        else:
            evaluate()
            answer = peak_bytes() if line.strip() == "evaluate" else device_peak_bytes()
        print(json.dumps(answer), flush=True)


def device_peak_bytes() -> int:
    """Return the most memory of the accelerator that this process had."""
    if "torch" in sys.modules:
        import torch

        return torch.cuda.max_memory_allocated()
    import jax

    return jax.devices()[0].memory_stats()["peak_bytes_in_use"]


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
