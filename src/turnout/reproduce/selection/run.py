"""A whole comparison by selections: what has to be played, and what is kept of it already."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl

from turnout.experiment.build import Built, build
from turnout.reproduce.parallel import group_by_group, side_by_side
from turnout.reproduce.selection.local import steps
from turnout.reproduce.selection.paper import Figure, Paper
from turnout.reproduce.selection.play import Task, play
from turnout.reproduce.store import Kept, Played, Store, Watch, mark_of
from turnout.theory.dissimilarity import measured


@dataclass(frozen=True)
class Plan:
    """What to reproduce on `problems`: figures of a paper, and its tables too where `whole`, each setting with `seeds` seeds."""

    paper: Paper
    figures: list[Figure]
    whole: bool
    problems: list[str]
    seeds: int
    data: Path | None = None

    def tasks(self) -> list[Task]:
        """Return what has to be played, problem by problem."""
        charts = [chart for figure in self.figures for chart in figure.shown(self.problems)]
        shown = {pair for chart in charts for pair in chart.pairs}
        settings = [self.paper.settings[name] for name in self.problems]
        return [
            self.task(setting.name, name)
            for setting in settings
            for name in setting.contenders
            if self.whole or (setting.name, name) in shown
        ]

    def task(self, problem: str, name: str) -> Task:
        """Return what `name` plays on a problem."""
        contender = self.paper.contender(problem, name)
        experiment = self.paper.settings[problem].experiment(name, contender)
        return Task(problem, name, contender, list(range(self.seeds)), self.paper.below, experiment)


@dataclass
class Results(Played):
    """The frames of all tasks played (see `play.play`), and their seconds."""

    hits: pl.DataFrame = field(default_factory=pl.DataFrame)
    curves: pl.DataFrame = field(default_factory=pl.DataFrame)
    each: dict[str, float] = field(default_factory=dict)

    def add(self, task: Task, kept: Kept) -> None:
        super().add(task, kept)
        self.each[task.stem] = round(kept.seconds, 1)
        self.hits = pl.concat([self.hits, kept.frames["hits"]], how="diagonal_relaxed")
        self.curves = pl.concat([self.curves, kept.frames["curves"]], how="diagonal_relaxed")


class Player:
    """Plays tasks, each once, and keeps what they leave."""

    def __init__(self, plan: Plan, folder: Path, watch: Watch):
        self.plan, self.watch, self.store, self.results = plan, watch, Store(folder), Results()
        self.built: dict[str, Built] = {}

    def play(self, tasks: list[Task]) -> None:
        """Play those of `tasks` that are not kept, one problem after another."""
        group_by_group(tasks, lambda task: task.problem, partial(self._play_problem, many=len(tasks)))

    def _play_problem(self, name: str, tasks: list[Task], done: int, many: int) -> None:
        built = self.built[name] = build(tasks[0].experiment, self.plan.data)

        def one(task: Task, number: int) -> Kept:
            check = partial(self.watch, task.stem, done + number, many)
            return self.store.played(task.stem, mark_of(built.digest, repr(task)), partial(play, task, built, check))

        side_by_side(tasks, one, self.results.add)

    def steps(self, problem: str, name: str, setting: str) -> pl.DataFrame:
        """Return the constants along a contender's run with a setting."""
        task, built = self.plan.task(problem, name), self.built[problem]
        mark = mark_of(built.digest, repr(task), setting)
        kept = self.store.played(f"{task.stem}-steps", mark, lambda: {"steps": steps(task, built, setting)})
        return kept.frames["steps"]

    def constants(self, problem: str) -> dict[str, float]:
        """Return the measured constants of a problem by name."""
        built = self.built[problem]
        kept = self.store.played(
            f"{problem}-constants",
            mark_of(built.digest),
            lambda: {"constants": pl.DataFrame([measured(built.problem)._asdict()])},
        )
        return kept.frames["constants"].row(0, named=True)
