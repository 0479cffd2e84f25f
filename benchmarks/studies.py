"""A study against the same sweep, two workers against one, and a run with callbacks against one without."""

import subprocess
import sys
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import turnout as t
from benchmarks.data import equal_clients
from benchmarks.sweeps import CLIENTS, COHORT, GRID, MIDDLE, MU, ROUNDS, SEEDS, SETTINGS, times
from benchmarks.timing import SEED, Line, alternate, ratio, seconds
from turnout.data import ContiguousSplit, load, present
from turnout.problems import Logistic

TURNOUT = (sys.executable, "-c", "from turnout.cli import main; main()")
STUDY = f"""
seeds = {len(SEEDS)}
run = {{ rounds = 400, metrics = ["value"] }}
[problems.a6a]
problem = {{ kind = "logistic", data = "a6a", mu = {MU} }}
split = {{ kind = "contiguous", clients = {CLIENTS} }}
sampler = {{ kind = "nice", size = {COHORT} }}
[methods.sppm]
algorithm = {{ kind = "sppm", solver = "bfgs", gamma = 10.0, inner = 5 }}
grid = {{ "algorithm.gamma" = {GRID["gamma"]}, "algorithm.inner" = {GRID["inner"]} }}
"""


def measure() -> list[Line]:
    """Return all comparisons."""
    if present("a6a") is None:
        return [Line("studies", "a study over the same sweep", None, note="skipped: put a6a into $TURNOUT_DATA")]
    return [against_sweep(), workers(), callbacks()]


def against_sweep() -> Line:
    """Compare a study of 200 runs with the same sweep in one process, both compiled before."""
    data = load("a6a")
    problem = Logistic.of(data, ContiguousSplit(CLIENTS).split(data), MU)
    algorithm = t.Sppm(t.Nice(COHORT), t.solvers.Bfgs(), **MIDDLE)
    grid = {f"algorithm.{key}": values for key, values in GRID.items()}
    method = {"algorithm": algorithm, "grid": grid, "run": {"rounds": ROUNDS, "metrics": ["value"]}}
    tables = {"seeds": SEEDS, "problems": {"a6a": problem}, "methods": {"sppm": method}}
    taken = alternate(
        {
            "study": lambda: seconds(lambda: t.study(tables)),
            "sweep": lambda: seconds(lambda: t.sweep(algorithm, problem, GRID, seeds=SEEDS, rounds=ROUNDS, metrics=("value",))),
        }
    )
    measured = ratio(taken, "study", "sweep")
    return Line("studies", "a study of 200 runs over the same sweep", measured, 1.05, note=times(taken), settings=SETTINGS,
                timings=taken)  # fmt: skip


def workers() -> Line:
    """Compare one process with two, each command from start to end."""
    with TemporaryDirectory() as folder:
        path, numbers = Path(folder) / "study.toml", count()
        path.write_text(STUDY, encoding="utf-8")

        def command(processes: int) -> float:
            line = [*TURNOUT, "study", path, "--out", Path(folder) / f"out-{next(numbers)}", "--workers", str(processes)]
            return seconds(lambda: subprocess.run(line, check=True, capture_output=True, text=True))

        taken = alternate({"one": lambda: command(1), "two": lambda: command(2)}, 3, warm=False)
    measured = ratio(taken, "one", "two")
    return Line("studies", "one worker over two", measured, 1.6, at_least=True, note=times(taken), settings={"study": STUDY},
                timings=taken)  # fmt: skip


class Nothing(t.Callback):
    """A callback that reads the last row."""

    def on_rows(self, session, rows):
        rows.row(-1)


def callbacks() -> Line:
    """Compare a run with a callback with one without."""
    problem, rounds = equal_clients(100, 100, 122), 2_000
    algorithm = t.FedAvg(t.Nice(10), lr=0.1, steps=5)

    def play(callbacks: list) -> float:
        options = {"rounds": rounds, "seed": SEED, "precision": "single", "metrics": ("value",), "callbacks": callbacks}
        return seconds(lambda: t.run(algorithm, problem, **options))

    taken = alternate({"with": lambda: play([Nothing()]), "without": lambda: play([])}, 41)
    each = {side: median(values) / rounds * 1e6 for side, values in taken.items()}
    note = f"{each['with']:.0f} against {each['without']:.0f} microseconds a round"
    return Line("studies", "a run with a callback over one without", ratio(taken, "with", "without"), 1.02, note=note,
                settings={"rounds": rounds, "seeds": [SEED]}, timings=taken)  # fmt: skip
