"""Playing a family of runs on one data set: compiled sweeps in, frames of what was reached and at what cost out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

from turnout.accounting.counters import to_ledger
from turnout.core.seeds import Seeds
from turnout.data.catalogue import load
from turnout.data.dataset import Dataset, digest
from turnout.engines.sweep import set_leaves
from turnout.experiment.build import grid_of
from turnout.experiment.config import Experiment
from turnout.problems.at_optimum import AtOptimum, at_optimum
from turnout.problems.base import Problem
from turnout.problems.optimum import Optimum, solve
from turnout.reproduce.costs.paper import Family
from turnout.reproduce.store import Frames
from turnout.runs.session import Session
from turnout.runs.sweep import Cell, cells_of
from turnout.runs.trace import Trace

INNER = "inner"
"""The field K of an algorithm: how many exchanges a round has."""

COSTS = ("exchanges", "iterations", "cohorts", "bytes")
QUARTILES = {"low": 0.25, "median": 0.5, "high": 0.75}


@dataclass(frozen=True)
class Case:
    """A data set cut into clients, once for all families, and no more of it than is asked for."""

    dataset: Dataset
    experiment: Experiment

    @classmethod
    def of(cls, experiment: Experiment, data: Path | None) -> "Case":
        """Load the data of `experiment`."""
        return cls(load(experiment.problem.data, data).normalized(experiment.problem.normalize), experiment)

    @cached_property
    def digest(self) -> str:
        """A digest of the data."""
        return digest(self.dataset)

    @cached_property
    def problem(self) -> Problem:
        """The problem."""
        return self.experiment.problem.build(self.dataset, self.experiment.split.split(self.dataset))

    @cached_property
    def optimum(self) -> Optimum:
        """Its solution."""
        return solve(self.problem)

    @cached_property
    def at_optimum(self) -> AtOptimum:
        """The derivatives there."""
        return at_optimum(self.problem, self.optimum)

    @cached_property
    def constants(self) -> dict[str, float]:
        """What a step size may be given as a multiple of."""
        return {"1/L": 1 / float(self.problem.constants().smoothness.max())}


@dataclass(frozen=True)
class Task:
    """Some settings of a family, each with all `seeds`; `fresh` tells runs that report from those that tune."""

    data: str
    family: Family
    settings: list[dict[str, float]]
    seeds: list[int]
    fresh: bool = False

    @property
    def name(self) -> str:
        """What the data set is called."""
        return Path(self.data).name

    @property
    def label(self) -> str:
        return f"{self.name}: {self.family.name}{' on fresh seeds' if self.fresh else ''}"

    @property
    def stem(self) -> str:
        """What the files are called that are kept of it."""
        return f"{self.name}-{self.family.name}{'-fresh' if self.fresh else ''}"

    @property
    def runs(self) -> int:
        return len(self.settings) * len(self.seeds)

    def sweeps(self) -> Iterator[tuple[int, list[dict[str, float]]]]:
        """Yield the rounds and the settings of each sweep: one for each K, so that no run is longer than it has to be."""
        default = getattr(self.family.experiment.algorithm, INNER, 1)
        for inner in sorted({setting.get(INNER, default) for setting in self.settings}):
            yield (
                rounds(self.family.spec.exchanges, int(inner)),
                [setting for setting in self.settings if setting.get(INNER, default) == inner],
            )


def grid(family: Family) -> list[dict[str, float]]:
    """Return all settings of a family's grid."""
    values, _ = grid_of(family.experiment)
    return [cell.settings for cell in cells_of(values, [0])]


def rounds(exchanges: int, inner: int) -> int:
    """Return enough rounds of K = `inner` exchanges: K is rounded down to a power of two, so that neighbours share a program."""
    return -(-exchanges // 2 ** (inner.bit_length() - 1))


def sessions(task: Task, case: Case) -> Iterator[tuple[list[Cell], Session]]:
    """Yield a session for each sweep of `task`, and its cells with the settings as the family gives them."""
    for length, settings in task.sweeps():
        cells = [Cell(setting, seed) for setting in settings for seed in task.seeds]
        algorithm, options = task.family.experiment.algorithm, common(case, length)
        scaled = [Cell(scale(task.family, case, cell.settings), cell.seed) for cell in cells]
        yield cells, Session(algorithm, case.problem, seeds=Seeds.of(0), cells=scaled, **options)


def single_sessions(task: Task, case: Case) -> Iterator[Session]:
    """Yield a session for each run of `task`, as `turnout.run` would play it."""
    for length, settings in task.sweeps():
        for setting, seed in product(settings, task.seeds):
            algorithm = set_leaves(task.family.experiment.algorithm, scale(task.family, case, setting))
            yield Session(algorithm, case.problem, seeds=Seeds.of(seed), **common(case, length))


def common(case: Case, length: int) -> dict:
    """Return the settings of every session: only the distance is evaluated, after each round."""
    return {"rounds": length, "metrics": ("distance",), "optimum": case.optimum}


def scale(family: Family, case: Case, settings: dict[str, float]) -> dict[str, float]:
    """Return `settings` with the hyper-parameters that the family gives as multiples of a constant multiplied by it."""
    algorithm, scaled = family.experiment.algorithm, dict(settings)
    for name, unit in (family.spec.scale or {}).items():
        field = name.removeprefix("algorithm.")
        multiple = settings[field] if field in settings else getattr(algorithm, field)
        scaled[field] = multiple * case.constants[unit]
    return scaled


def play(task: Task, case: Case, targets: list[float], check: Callable[[], None]) -> Frames:
    """Play `task` and return its "hits" and its "curves".

    Hits have a row for each run and target: what the first model with |x - x*|^2 below the target had cost, null where there
    was none. Curves have a row for each setting and round: quartiles of the distance over the seeds. Fresh runs have no curves
    and end when all of them have met the last target.
    """
    hits, curves = [], []
    for cells, played in sessions(task, case):
        for _ in played.play():
            check()
            if task.fresh and all(np.min(trace.columns["distance"]) < min(targets) for trace in played.traces):
                break
        marks = [{"data": task.name, "family": task.family.name, "fresh": task.fresh, **cell.settings} for cell in cells]
        for mark, cell, trace in zip(marks, cells, played.traces, strict=True):
            hits += [{**mark, "seed": cell.seed, "below": below, **cost_of(trace, below)} for below in targets]
        if not task.fresh:
            many = len(task.seeds)
            curves += [curve(mark, played.traces[k : k + many]) for k, mark in enumerate(marks) if k % many == 0]
    # Integers where there are any: a column whose first runs never arrived is not one of nulls.
    frame = pl.DataFrame(hits, infer_schema_length=None).with_columns(pl.col(COSTS).cast(pl.Int64))
    return {"hits": frame, "curves": pl.concat(curves) if curves else pl.DataFrame()}


def cost_of(trace: Trace, below: float) -> dict[str, int | None]:
    """Return what had been spent when the distance was first below `below`."""
    met = np.flatnonzero(trace.columns["distance"] < below)
    if not met.size:
        return dict.fromkeys(COSTS)
    totals = to_ledger(trace.sites, trace.columns["counts"][met[0]]).totals()
    return {**{name: totals[name] for name in COSTS[:3]}, "bytes": totals["bytes_down"] + totals["bytes_up"]}


def curve(mark: dict, traces: list[Trace]) -> pl.DataFrame:
    """Return the quartiles of the distance after each round; a run that diverged counts as infinitely far from there on."""
    length = max(map(len, traces))
    distances = np.full((len(traces), length), np.inf)
    for row, trace in zip(distances, traces, strict=True):
        row[: len(trace)] = trace.columns["distance"]
    spent = np.full((len(traces), length), np.inf)
    for row, trace in zip(spent, traces, strict=True):
        row[: len(trace)] = to_ledger(trace.sites, trace.columns["counts"]).totals()["exchanges"]
    columns = {name: quantile(distances, q) for name, q in QUARTILES.items()}
    frame = pl.DataFrame({"round": np.arange(length), "exchanges": quantile(spent, 0.5), **columns})
    return frame.select(*(pl.lit(value).alias(name) for name, value in mark.items()), "*")


def quantile(rows: np.ndarray, q: float) -> np.ndarray:
    """Return the q-quantile of each column; unlike NumPy's it is a value that occurs, so that infinity does no harm."""
    return np.sort(rows, axis=0)[min(int(q * len(rows)), len(rows) - 1)]
