"""A whole reproduction: what has to be played for the figures and tables asked for, in order, with what is kept already."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import jax
import polars as pl

from turnout.reproduce.costs.paper import Figure, Paper
from turnout.reproduce.costs.play import Case, Task, grid, play
from turnout.reproduce.store import Kept, Played, Store, Watch, mark_of

FRESH = 1000
"""The first of the seeds that report what was tuned on seeds 0, 1, ..."""


@dataclass(frozen=True)
class Plan:
    """What to reproduce: figures of a paper, and its tables too where `tables`, on `sets`, with at least `seeds` seeds."""

    paper: Paper
    figures: list[Figure]
    tables: bool
    sets: list[str]
    seeds: int
    data: Path | None = None

    def figure_sets(self, figure: Figure) -> list[str]:
        """Return the data sets of a figure: the paper's, or all those given in their stead."""
        return figure.sets if self.sets == self.paper.sets else self.sets


@dataclass
class Results(Played):
    """The frames of all tasks played: see `play.play`."""

    hits: pl.DataFrame = field(default_factory=pl.DataFrame)
    curves: pl.DataFrame = field(default_factory=pl.DataFrame)

    def add(self, task: Task, kept: Kept) -> None:
        super().add(task, kept)
        self.hits = pl.concat([self.hits, kept.frames["hits"]], how="diagonal_relaxed")
        self.curves = pl.concat([self.curves, kept.frames["curves"]], how="diagonal_relaxed")


class Player:
    """Plays tasks, each once, and keeps what they leave."""

    def __init__(self, plan: Plan, folder: Path, watch: Watch):
        self.plan, self.watch, self.store, self.results = plan, watch, Store(folder), Results()
        self._cases: dict = {}

    def play(self, tasks: list[Task]) -> None:
        """Play those of `tasks` that are not kept."""
        for number, task in enumerate(tasks):
            check = partial(self.watch, task.label, number, len(tasks))
            targets, case = self.plan.paper.targets, self.case(task.data)
            kept = self.store.played(task.stem, mark(task, targets, case.digest), partial(play, task, case, targets, check))
            self.results.add(task, kept)
            # The programs of one task serve no other, and too many of them exhaust a process's memory maps.
            jax.clear_caches()

    def case(self, data: str) -> Case:
        """Return the data set `data` as the families of the paper use it."""
        if data not in self._cases:
            family = self.plan.paper.family(next(iter(self.plan.paper.tabled)), data)
            self._cases[data] = Case.of(family.experiment, self.plan.data)
        return self._cases[data]


def mark(task: Task, targets: list[float], data_mark: str) -> str:
    """Return a digest of all that the results of `task` depend on."""
    family = task.family.experiment.to_toml() + repr(task.family.spec)
    return mark_of(data_mark, family, task.settings, task.seeds, targets)


def tuning_tasks(plan: Plan) -> list[Task]:
    """Return the runs that figures show and that tune the entries of the tables."""
    wanted = {(data, name) for figure in plan.figures for data in plan.figure_sets(figure) for name in figure.needed}
    if plan.tables:
        wanted |= {(data, name) for data in plan.sets for name in plan.paper.tabled}
    tasks = []
    for data, name in sorted(wanted):
        family = plan.paper.family(name, data)
        tasks.append(Task(data, family, grid(family), list(range(max(plan.seeds, family.spec.seeds)))))
    return tasks


def fresh_tasks(plan: Plan, picked: dict[tuple[str, str], list[dict[str, float]]]) -> list[Task]:
    """Return the runs that report the settings `picked` for each data set and family, on seeds that tuned nothing."""
    seeds = list(range(FRESH, FRESH + plan.paper.fresh))
    places = {Path(data).name: data for data in plan.sets}
    return [
        Task(places[data], plan.paper.family(name, places[data]), settings, seeds, True)
        for (data, name), settings in sorted(picked.items())
    ]
