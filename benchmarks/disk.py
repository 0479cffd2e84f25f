"""Clients on disk and made by a function: what a round costs beside one in memory, and the memory of the process."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

import turnout as t
from benchmarks.data import equal_clients
from benchmarks.memory import peak_bytes
from benchmarks.timing import SEED, Line, alternate, ratio, seconds
from turnout.data import NaturalSplit, load, made_clients, write_clients
from turnout.runs.session import Session

CLIENTS, ROWS, WIDTH, COHORT = 10**6, 20, 60, 100
FEW, MANY = 10**4, 10**7
ROUNDS, SAMPLE = 2000, 1000
KINDS = 5000
"""Clients with different rows; the others have those of one of them, so that making them takes little."""

SETTINGS = {"clients": CLIENTS, "rows": ROWS, "width": WIDTH, "cohort": COHORT, "rounds": ROUNDS, "steps": 5, "lr": 0.1,
            "evaluated": SAMPLE, "precision": "single", "seeds": [SEED]}  # fmt: skip


def measure() -> list[Line]:
    """Return the time of a round with clients on disk over W2's, the memory that it takes, and K-Vib's time by n."""
    with tempfile.TemporaryDirectory(prefix="turnout-") as folder:
        path = Path(folder) / "clients.arrow"
        write_clients(path, rows_of, clients=CLIENTS, precision="single")
        disk, size = problem_of(load(path)), path.stat().st_size
        memory = equal_clients(FEW, ROWS, WIDTH)
        taken = alternate({"disk": timer(disk), "memory": timer(memory)})
        peak = peak_of(path)
    each = {side: median(times) / ROUNDS * 1e6 for side, times in taken.items()}
    note = f"{each['disk']:.0f} against {each['memory']:.0f} microseconds a round"
    return [
        Line("disk", "a round of 10^6 clients on disk over W2's in memory", ratio(taken, "disk", "memory"), 2.0, note=note,
             settings=SETTINGS, timings=taken),
        Line("disk", "peak memory of a process that runs 10^6 clients on disk", peak / 1e9, 1.5, unit="GB",
             note=f"a file of {size / 1e9:.1f} GB", settings=SETTINGS),
        by_number(),
    ]  # fmt: skip


def by_number() -> Line:
    """Measure rounds of K-Vib among few and among many clients that a function makes."""
    sampler = t.Independent(t.KVib(mixing=0.1), size=float(COHORT))
    sides = {str(n): timer(problem_of(made_clients(rows_of, n)), sampler) for n in (FEW, 10**5, MANY)}
    taken = alternate(sides)
    note = " / ".join(f"{median(times) / ROUNDS * 1e6:.0f}" for times in taken.values()) + " microseconds with 10^4 / 10^5 / 10^7"
    return Line("disk", "a round of K-Vib among 10^7 clients over one among 10^4", ratio(taken, str(MANY), str(FEW)), 1.5,
                note=note, settings={**SETTINGS, "clients": [FEW, 10**5, MANY]}, timings=taken)  # fmt: skip


def rows_of(i: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of client i."""
    k = i * 7919 % KINDS
    return FEATURES[k], LABELS[k]


FEATURES = np.random.default_rng(SEED).normal(size=(KINDS, ROWS, WIDTH)).astype(np.float32)
LABELS = np.where(FEATURES[:, :, 0] + np.random.default_rng(SEED + 1).normal(size=(KINDS, ROWS)) > 0, 1.0, -1.0)


def problem_of(data) -> t.Problem:
    """Return logistic regression on clients whose rows are read when they are drawn."""
    return t.Logistic.of(data, NaturalSplit().split(data), mu=0.1)


def timer(problem: t.Problem, sampler: t.Sampler | None = None):
    """Return a function that gives the seconds of a run after its first trace row."""

    def timed() -> float:
        options = {"evaluate": SAMPLE} if problem.clients > FEW or not isinstance(problem.rows[0], np.ndarray) else {}
        chunks = Session(
            t.FedAvg(sampler or t.Nice(COHORT), lr=0.1, steps=5), problem, rounds=ROUNDS, every=ROUNDS, metrics=("value",),
            precision="single", **options,
        ).play()  # fmt: skip
        next(chunks)
        return seconds(lambda: list(chunks))

    return timed


def peak_of(path: Path) -> int:
    """Return the peak memory in bytes of a process of its own that runs the clients of a file."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.disk", str(path)], capture_output=True, text=True, check=True, env=os.environ
    )
    return int(done.stdout)


if __name__ == "__main__":
    timer(problem_of(load(Path(sys.argv[1]))))()
    print(peak_bytes())
