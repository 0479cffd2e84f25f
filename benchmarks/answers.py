"""How long an answer takes: commands from start to end, and a plain NumPy script that does the same job."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.timing import REPEATS, Line, seconds

ROOT = Path(__file__).parents[1]
RUN = "examples/adult/sppm-sketch.toml"

PLAIN = """
import lzma, os
import numpy as np
from scipy.optimize import minimize
lines = [line.split() for line in lzma.open(os.environ["TURNOUT_DATA"] + "/a6a.xz", "rt")]
labels = np.sign([float(words[0]) for words in lines])
rows = np.zeros((len(lines), 122))
for row, words in zip(rows, lines):
    for word in words[1:]:
        column, value = word.split(":")
        if int(column) <= 122:
            row[int(column) - 1] = float(value)
random = np.random.default_rng(0)
clients = np.array_split(random.permutation(len(labels)), 100)
def oracle(x, rows=rows, labels=labels):
    margins = -labels * (rows @ x)
    return np.mean(np.logaddexp(0, margins)) + 0.05 * x @ x, rows.T @ (-labels / (1 + np.exp(-margins))) / len(labels) + 0.1 * x
best = minimize(oracle, np.zeros(122), jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "maxiter": 1000}).x
x = np.zeros(122)
for _ in range(200):
    x = x - 0.3 * np.mean([oracle(x, rows[clients[i]], labels[clients[i]])[1] for i in random.choice(100, 10, replace=False)], 0)
print(np.sum((x - best) ** 2))
"""
"""What somebody would write alone: load the data, find the optimum, play 200 rounds of LocalGD with 10 of 100 clients."""

ALGORITHM = """
import time
import turnout as t
from turnout.data import KMeansSplit, load
data = load("breast_cancer").normalized("columns")
problem = t.Logistic.of(data, KMeansSplit(clusters=8, clients_per_cluster=5).split(data), mu=0.1)
t.run(t.FedAvg(t.Nice(4), lr=0.05, steps=3), problem, rounds=10)
began = time.perf_counter()
t.run(t.Scaffold(t.Nice(4), lr=0.05, steps=3), problem, rounds=10)
print(time.perf_counter() - began)
"""
"""A program that prints the seconds of the first ten rounds of a second algorithm."""


def measure() -> list[Line]:
    """Return the seconds of commands, the first and the second time, and ratios to the plain script and to `import jax`."""
    with TemporaryDirectory(prefix="turnout-") as folder:
        place = Place(Path(folder))
        return [*place.starts(), *place.answers(), *place.studies()]


class Place:
    """A folder in which commands run, with a cache of its own.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def python(self, *arguments: str, cache: str = "cache") -> tuple[float, str]:
        """Return the seconds of a process, and what it printed."""
        environment = self.environment | {"TURNOUT_CACHE": str(self.folder / cache)}
        said = []

        def play():
            command = [sys.executable, *arguments]
            said.append(subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=ROOT).stdout)

        return seconds(play), said[0]

    def turnout(self, *words: str, cache: str = "cache", out: bool = False) -> float:
        """Return the seconds of a command, which writes to a new folder where `out` is true."""
        folder = self.folder / "out"
        shutil.rmtree(folder, ignore_errors=True)
        return self.python("-m", "turnout", *words, *(["--out", str(folder)] if out else []), cache=cache)[0]

    def first_and_second(self, *words: str, out: bool) -> tuple[list[float], list[float]]:
        """Return the seconds of a command with an empty cache, and of the same command again."""
        both = [[self.turnout(*words, cache=f"cache-{words[0]}-{k}", out=out) for _ in range(2)] for k in range(REPEATS)]
        return [first for first, _ in both], [second for _, second in both]

    def starts(self) -> list[Line]:
        """Return how long help and imports take."""
        self.turnout("--help")
        shown = [self.turnout("--help") for _ in range(REPEATS)]
        jax, used = ([self.python("-c", f"import {what}")[0] for _ in range(REPEATS)] for what in ("jax", "turnout; turnout.run"))
        new = [float(self.python("-c", ALGORITHM, cache=f"new-{k}")[1]) for k in range(REPEATS)]
        return [
            Line("answers", "turnout --help", median(shown), 0.4, unit="s", timings={"help": shown}),
            Line("answers", "import turnout and its run over import jax", median(used) / median(jax), 1.3,
                 timings={"import turnout": used, "import jax": jax}),
            Line("answers", "first 10 rounds of a new algorithm", median(new), 0.9, unit="s", timings={"rounds": new}),
        ]  # fmt: skip

    def answers(self) -> list[Line]:
        """Return how long a run, an estimate and theory take; a run beside the plain script."""
        if "TURNOUT_DATA" not in os.environ:
            return [Line("answers", "a run over a plain script", None, 3.0, note="the data are not here: set TURNOUT_DATA")]
        plain = [self.python("-c", PLAIN)[0] for _ in range(REPEATS)]
        first, second = self.first_and_second("run", RUN, out=True)
        lines = [
            Line("answers", f"{words} run over a plain script", median(taken) / median(plain), bar,
                 note=f"{median(taken):.2f} against {median(plain):.2f} s", timings={"run": taken, "plain": plain})
            for words, taken, bar in (("first", first, 6.0), ("second", second, 3.0))
        ]  # fmt: skip
        for command, bar in (("describe", 2.5), ("theory", 3.5)):
            taken = self.first_and_second(command, RUN, out=False)[1]
            lines.append(
                Line("answers", f"turnout {command}, second time", median(taken), bar, unit="s", timings={command: taken})
            )
        return lines

    def studies(self) -> list[Line]:
        """Return how long the study of the demo takes."""
        first, second = self.first_and_second("study", "examples/demo", out=True)
        return [
            Line("answers", f"the study of the demo, {words} time", median(taken), bar, unit="s", timings={"study": taken})
            for words, taken, bar in (("first", first, 15.0), ("second", second, 7.0))
        ]
