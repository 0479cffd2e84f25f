"""Kill one of the processes of a run at random, resume it with another number, and compare: `python -m benchmarks.mesh_drill`."""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import tomli_w
from safetensors.numpy import load_file

SAME = 1e-10
"""How far apart parameters may be."""

LONGEST = 30.0
"""Seconds within which the command has to end after a kill."""

RUN = {
    "problem": {"kind": "logistic", "data": "breast_cancer", "normalize": "columns", "mu": 0.1},
    "split": {"kind": "kmeans", "clusters": 4, "clients_per_cluster": 3},
    "sampler": {"kind": "independent", "size": 4.0, "probability": {"kind": "k-vib"}},
    "algorithm": {"kind": "scaffold", "lr": 0.01, "steps": 2},
    "faults": {"loss": 0.2, "missing": "skip"},
    "run": {"rounds": 4000, "every": 50},
}


def main() -> int:
    """Play the drill; the exit code is 1 where a run did not end in time, or something differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mesh_drill", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="processes to kill (20)")
    parser.add_argument("--seed", type=int, default=0, help="seed of what is killed when (0)")
    options = parser.parse_args()
    generator, kills, worst, slowest = np.random.default_rng(options.seed), 0, 0.0, 0.0
    with TemporaryDirectory(prefix="turnout-") as temporary:
        folder = Path(temporary)
        (folder / "run.toml").write_text(tomli_w.dumps(RUN))
        turnout("run", folder / "run.toml", "--out", folder / "whole").wait()
        number = 0
        while kills < options.kills:
            out = folder / f"out-{number}"
            number += 1
            while not (out / "summary.json").exists():
                begun = (out / "config.toml").exists()
                command = ["resume", out] if begun else ["run", folder / "run.toml", "--out", out]
                process = turnout(*command, "--processes", int(generator.choice([2, 3])))
                took = killed(process, out, generator) if kills < options.kills else None
                _, wrong = process.communicate()
                if process.returncode == 2:
                    raise SystemExit(wrong)
                kills, slowest = kills + (took is not None), max(slowest, took or 0.0)
            worst = max(worst, difference(folder / "whole", out))
            print(f"run {number}: {kills} kills so far, largest difference {worst:.1e}", flush=True)
    print(f"{kills} kills in {number} runs; largest difference {worst:.1e}; ended at most {slowest:.1f} s after a kill")
    return int(worst > SAME or slowest > LONGEST)


def turnout(*arguments) -> subprocess.Popen:
    """Start a command."""
    command = [sys.executable, "-m", "turnout", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed(process: subprocess.Popen, out: Path, generator: np.random.Generator) -> float | None:
    """Kill a process of a run at a random moment, and return the seconds until its command ends; None where it had ended."""
    # Processes play for some seconds after starting for some.
    try:
        process.wait(generator.uniform(4, 12))
        return None
    except subprocess.TimeoutExpired:
        victims = children(process.pid)
    if not victims or not (out / "checkpoint.safetensors").exists():
        process.wait()
        return None
    began = time.monotonic()
    subprocess.run(["kill", "-9", str(generator.choice(victims))], check=False)
    process.wait(2 * LONGEST)
    return time.monotonic() - began


def children(parent: int) -> list[int]:
    """Return the processes that another one has started."""
    return [int(pid) for file in Path(f"/proc/{parent}/task").glob("*/children") for pid in file.read_text().split()]


def difference(folder: Path, other: Path) -> float:
    """Return how far two runs are apart, infinite where their counts differ."""
    left, right = (load_file(path / "model.safetensors") for path in (folder, other))
    traces = [pl.read_parquet(path / "trace.parquet") for path in (folder, other)]
    counts = [name for name in traces[0].columns if traces[0][name].dtype.is_integer()]
    if not traces[0].select(counts).equals(traces[1].select(counts)):
        return float("inf")
    return max(float(np.abs(left[name] - right[name]).max()) for name in left)


if __name__ == "__main__":
    sys.exit(main())
