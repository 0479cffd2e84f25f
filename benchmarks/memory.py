"""What clients of very different sizes cost in memory: storage, and the peak of a run, over the data's own bytes."""

import resource
import subprocess
import sys

import jax
import numpy as np

import turnout as t
from benchmarks.data import power_sizes, unequal_clients
from benchmarks.timing import SEED, Line
from turnout.problems.storage.store import store

CLIENTS, SPREAD = 1000, 100
KINDS = {
    "dense": {"median": 40, "width": 200, "entries": None},
    "sparse": {"median": 400, "width": 123, "entries": 14},
}


def measure() -> list[Line]:
    """Return both ratios for dense and for sparse rows."""
    return [line for kind in KINDS for line in (held(kind), peak(kind))]


def problem_of(kind: str):
    """Return the problem of the given kind of rows: sizes follow a power law, the largest 100 times the median."""
    options = KINDS[kind]
    sizes = power_sizes(CLIENTS, options["median"], SPREAD)
    return unequal_clients(sizes, options["width"], options["entries"])


def own_bytes(problem) -> int:
    """Return the bytes of the rows themselves: features, dense or compressed, and labels."""
    return sum(leaf.nbytes for leaf in jax.tree.leaves(problem.rows))


def settings_of(kind: str, problem) -> dict:
    """Return how the problem was set up."""
    facts = {"rows": int(problem.sizes.sum()), "largest": int(problem.sizes.max()), "bytes": own_bytes(problem)}
    return {**KINDS[kind], **facts, "clients": CLIENTS, "median": float(np.median(problem.sizes)), "seeds": [SEED]}


def held(kind: str) -> Line:
    """Weigh what the compiled engine stores."""
    problem = problem_of(kind)
    storage = store(problem)
    stored = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(storage))
    note = f"{type(storage).__name__}: {stored / 2**20:.0f} MiB for {own_bytes(problem) / 2**20:.0f} MiB"
    return Line("memory", f"bytes stored over bytes of data, {kind} rows", stored / own_bytes(problem), 2.0, note=note,
                settings=settings_of(kind, problem))  # fmt: skip


def peak(kind: str) -> Line:
    """Compare the peak memory of a process that runs with that of one that only makes the same data."""
    problem = problem_of(kind)
    peaks = {doing: int(child(kind, doing)) for doing in ("data", "run")}
    extra = (peaks["run"] - peaks["data"]) / own_bytes(problem)
    note = ", ".join(f"{doing} {value / 2**20:.0f} MiB" for doing, value in peaks.items())
    return Line("memory", f"extra memory of a run over bytes of data, {kind} rows", extra, note=note,
                settings={**settings_of(kind, problem), "peaks": peaks})  # fmt: skip


def child(kind: str, doing: str) -> str:
    """Return the peak memory of a process of its own, in bytes."""
    command = [sys.executable, "-m", "benchmarks.memory", kind, doing]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def play(problem) -> None:
    """Play two rounds, so that all that a run holds is held."""
    t.run(t.FedAvg(t.Nice(10), lr=0.1, steps=2), problem, rounds=2)


def peak_bytes(process: int | str = "self") -> int:
    """Return the peak resident memory of a process, by default this one; of others only Linux tells."""
    try:
        # getrusage would tell of the parent's memory too: on Linux its peak survives exec.
        with open(f"/proc/{process}/status", encoding="utf-8") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    kind, doing = sys.argv[1:]
    # A run on next to nothing first, so that what JAX itself needs is in both processes.
    play(unequal_clients(power_sizes(CLIENTS, 1, SPREAD), KINDS[kind]["width"], KINDS[kind]["entries"]))
    data = problem_of(kind)
    if doing == "run":
        play(data)
    print(peak_bytes())
