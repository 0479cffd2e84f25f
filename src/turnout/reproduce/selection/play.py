"""Playing a contender with all settings of its grid: one compiled sweep in, frames of costs and curves out."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from turnout.accounting.counters import to_ledger
from turnout.core.seeds import Seeds
from turnout.experiment.build import Built, grid_of
from turnout.experiment.config import Experiment
from turnout.problems.base import Problem
from turnout.report.format import number
from turnout.reproduce.selection.paper import Contender
from turnout.reproduce.store import Frames
from turnout.runs.session import Session
from turnout.runs.sweep import Cell, cells_of
from turnout.runs.trace import Trace

EVENTS = ("draws_arbitrary", "draws_random", "draws_delegate", "reasks", "exchanges", "queries_slowest", "bytes_down", "bytes_up")
"""What prices and tables are made of."""

POINTS = 200
"""The most points of a curve that are kept."""


@dataclass(frozen=True)
class Task:
    """One contender on one problem, with all settings of its grid and all `seeds`; it arrives at each of the shares `below`."""

    problem: str
    name: str
    contender: Contender
    seeds: list[int]
    below: list[float]
    experiment: Experiment

    @property
    def stem(self) -> str:
        """What the files are called that are kept of it, and the task itself."""
        return f"{self.problem}-{self.name}"

    def cells(self) -> list[Cell]:
        """Return its runs, with the settings as the grid has them."""
        return cells_of(grid_of(self.experiment)[0], self.seeds)


def scaled(task: Task, problem: Problem, settings: dict[str, float]) -> dict[str, float]:
    """Return `settings` with those that are multiples of a constant of `problem` multiplied by it."""
    constants, scale = problem.constants(), task.contender.scale or {}
    if constants is None:
        return settings
    largest = float(constants.smoothness.max())
    units = {"L": largest, "1/L": 1 / largest}
    return {key: value * units[scale[key]] if key in scale else value for key, value in settings.items()}


def session_of(task: Task, built: Built, cells: list[Cell]) -> Session:
    """Return the sweep that plays `cells`."""
    run, known = task.experiment.run, [Cell(scaled(task, built.problem, cell.settings), cell.seed) for cell in cells]
    options = {"rounds": run.rounds, "metrics": tuple(run.metrics), "precision": run.precision}
    return Session(task.experiment.algorithm, built.problem, seeds=Seeds.of(0), cells=known, **options)


def play(task: Task, built: Built, check: Callable[[], None]) -> Frames:
    """Play `task` and return "hits" and "curves".

    Hits have a row for each run and target: its events up to the first model with |grad f|^2 at most the share `below` of that at
    the start, null where there was none. Curves have the same events and that share at some of the models of each run.
    """
    cells, last = task.cells(), min(task.below)
    session = session_of(task, built, cells)
    for _ in session.play():
        check()
        if all(share(trace).min() <= last for trace in session.traces):
            break
    hits, curves = [], []
    for cell, trace in zip(cells, session.traces, strict=True):
        mark = {"problem": task.problem, "contender": task.name, "setting": told(cell), "seed": cell.seed}
        frame, shares = events(trace), share(trace)
        for below in task.below:
            met = np.flatnonzero(shares <= below)
            row = frame.row(int(met[0]), named=True) if met.size else dict.fromkeys(frame.columns)
            hits.append({**mark, "below": below, **row})
        end = int(np.argmax(shares <= last)) + 1 if shares.min() <= last else len(frame)
        kept = np.unique(np.linspace(0, end - 1, POINTS).round().astype(int))
        curves.append(frame[kept.tolist()].select(*(pl.lit(value).alias(key) for key, value in mark.items()), "*"))
    typed = {"share": pl.Float64, **dict.fromkeys(EVENTS, pl.Int64)}
    return {"hits": pl.DataFrame(hits, infer_schema_length=None).cast(typed), "curves": pl.concat(curves)}


def told(cell: Cell) -> str:
    """Write the settings of a cell, such as "lam = 0.1, probability = 0.05"."""
    return ", ".join(f"{key.rpartition('.')[2]} = {number(value)}" for key, value in cell.settings.items())


def share(trace: Trace) -> np.ndarray:
    """Return |grad f|^2 as a share of that at the start; infinite where the run diverged."""
    gradients = trace.columns["gradient"]
    return np.where(np.isfinite(gradients), gradients, np.inf) / gradients[0]


def events(trace: Trace) -> pl.DataFrame:
    """Return the share and the sums of `EVENTS` at each model of a run."""
    totals = to_ledger(trace.sites, trace.columns["counts"]).totals()
    return pl.DataFrame({"share": share(trace), **{name: np.asarray(totals[name], "int64") for name in EVENTS}})
