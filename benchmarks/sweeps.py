"""A sweep of 200 runs as one program, against the same runs one after another and against 200 commands."""

import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import jax

import turnout as t
from benchmarks.timing import Line, alternate, ratio, seconds
from turnout.core.seeds import Seeds
from turnout.data import ContiguousSplit, load, present
from turnout.problems import Logistic
from turnout.problems.optimum import solve
from turnout.runs.session import Session
from turnout.runs.setup import bind
from turnout.runs.sweep import cells_of

CLIENTS, COHORT, ROUNDS, MU = 100, 10, 20, 0.1
GRID = {"gamma": [0.1, 1.0, 10.0, 100.0, 1000.0], "inner": [1, 2, 3, 4, 5, 6, 8, 10]}
SEEDS = [0, 1, 2, 3, 4]
MIDDLE = {"gamma": 10.0, "inner": 5}
SETTINGS = {"data": "a6a", "clients": CLIENTS, "cohort": COHORT, "rounds": ROUNDS, "grid": GRID, "seeds": SEEDS}
WITHIN, COMMANDS = "a sweep of 200 runs over its runs in one process", "200 commands over one turnout sweep"
TURNOUT = (sys.executable, "-c", "from turnout.cli import main; main()")


def measure() -> list[Line]:
    """Return both comparisons."""
    if present("a6a") is None:
        return [Line("sweeps", WITHIN, None, note="skipped: put a6a into $TURNOUT_DATA")]
    return [*in_process(), commands()]


def in_process() -> list[Line]:
    """Compare the loops over rounds of both in one process, after compilation and with it."""
    problem = Logistic.of(load("a6a"), ContiguousSplit(CLIENTS).split(load("a6a")), MU)
    algorithm, optimum = bind(t.Sppm(t.Nice(COHORT), t.solvers.Bfgs(), **MIDDLE), problem), solve(problem)
    cells = cells_of(GRID, SEEDS)

    def play(algorithm, seed, cells) -> float:
        session = Session(
            algorithm, problem, seeds=Seeds.of(seed), rounds=ROUNDS, metrics=("gap",),
            optimum=optimum, cells=cells,
        )  # fmt: skip
        return seconds(lambda: list(session.play()))

    def one_program() -> float:
        return play(algorithm, 0, cells)

    def one_by_one() -> float:
        return sum(play(replace(algorithm, **cell.settings), cell.seed, None) for cell in cells)

    def afresh(timed) -> float:
        jax.clear_caches()
        return timed()

    cold = alternate({"sweep": lambda: afresh(one_program), "runs": lambda: afresh(one_by_one)}, 3, warm=False)
    taken = alternate({"sweep": one_program, "runs": one_by_one})
    return [
        Line("sweeps", WITHIN, ratio(taken, "sweep", "runs"), 1.0, settings=SETTINGS,
             note=times(taken), timings=taken),
        Line("sweeps", "the same, compilation included", ratio(cold, "sweep", "runs"), settings=SETTINGS,
             note=times(cold), timings=cold),
    ]  # fmt: skip


def commands() -> Line:
    """Compare one `turnout sweep` with 200 times one `turnout run`."""
    with TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "run.toml").write_text(configuration(), encoding="utf-8")
        (folder / "sweep.toml").write_text(configuration() + grid(), encoding="utf-8")
        numbers = count()

        def command(name: str) -> float:
            line = [*TURNOUT, name, folder / f"{name}.toml", "--out", folder / f"{name}-{next(numbers)}"]
            return seconds(lambda: subprocess.run(line, check=True, capture_output=True, text=True))

        try:
            taken = alternate({"run": lambda: command("run"), "sweep": lambda: command("sweep")}, 3, warm=False)
        except subprocess.CalledProcessError as error:
            reason = (error.stderr.strip().splitlines() or ["no message"])[-1]
            return Line("sweeps", COMMANDS, None, 10.0, at_least=True, note=f"failed: {reason}", settings=SETTINGS)
    note = f"{median(taken['run']):.1f} s a run, {median(taken['sweep']):.1f} s the sweep"
    faster = len(cells_of(GRID, SEEDS)) * median(taken["run"]) / median(taken["sweep"])
    return Line("sweeps", COMMANDS, faster, 10.0, at_least=True, note=note, settings=SETTINGS, timings=taken)


def configuration() -> str:
    """Return the run in the middle of the grid as a configuration."""
    return f"""
[problem]
kind = "logistic"
data = "a6a"
mu = {MU}
[split]
kind = "contiguous"
clients = {CLIENTS}
[sampler]
kind = "nice"
size = {COHORT}
[algorithm]
kind = "sppm"
solver = "bfgs"
gamma = {MIDDLE["gamma"]}
inner = {MIDDLE["inner"]}
[run]
rounds = {ROUNDS}
metrics = ["gap"]
"""


def grid() -> str:
    """Return the grid as a table of a configuration."""
    return f"[sweep]\ngamma = {GRID['gamma']}\ninner = {GRID['inner']}\nseed = {SEEDS}\n"


def times(taken: dict[str, list[float]]) -> str:
    """Write the median time of each side."""
    return ", ".join(f"{name} {median(values):.2f} s" for name, values in taken.items())
