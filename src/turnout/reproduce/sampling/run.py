"""A whole comparison of samplers: what has to be played for the figures and tables asked for, and what is kept already."""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import polars as pl

from turnout.experiment.build import Built, build
from turnout.reproduce.parallel import side_by_side
from turnout.reproduce.sampling.paper import Figure, Paper
from turnout.reproduce.sampling.play import Task, play
from turnout.reproduce.store import Kept, Played, Store, Watch, mark_of


@dataclass(frozen=True)
class Plan:
    """What to reproduce: figures of a paper, and all its tables too where `whole`, each sampler with `seeds` seeds."""

    paper: Paper
    figures: list[Figure]
    whole: bool
    seeds: int
    data: Path | None = None

    def tasks(self) -> list[Task]:
        """Return what has to be played."""
        contenders, seeds = self.paper.contenders, list(range(self.seeds))
        if not self.whole:
            names = dict.fromkeys(name for figure in self.figures for name in figure.needed)
            return [Task(contenders[name], seeds) for name in names]
        equal = [Task(contenders[name], seeds, "uniform") for name in self.paper.equal]
        return [*(Task(each, seeds) for each in contenders.values()), *equal, Task(self.paper.own, seeds, judged=False)]


@dataclass
class Results(Played):
    """The frames of all tasks played: see `play.play`."""

    rounds: pl.DataFrame = field(default_factory=pl.DataFrame)
    runs: pl.DataFrame = field(default_factory=pl.DataFrame)
    totals: pl.DataFrame = field(default_factory=pl.DataFrame)
    programs: dict[str, pl.DataFrame] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        return max((len(task.seeds) for task in self.tasks), default=0)

    def add(self, task: Task, kept: Kept) -> None:
        super().add(task, kept)
        self.programs[task.stem] = kept.frames["programs"]
        if task.judged:
            self.rounds = pl.concat([self.rounds, kept.frames["rounds"]], how="diagonal_relaxed")
            self.totals = pl.concat([self.totals, kept.frames["totals"]], how="diagonal_relaxed")


class Player:
    """Plays tasks, each once, and keeps what they leave."""

    def __init__(self, plan: Plan, folder: Path, watch: Watch):
        self.plan, self.watch, self.store, self.results = plan, watch, Store(folder), Results()
        self._built: dict[str, Built] = {}

    def play(self, tasks: list[Task]) -> None:
        """Play those of `tasks` that are not kept."""
        for task in tasks:
            self.built(task.weights)
        side_by_side(tasks, lambda task, number: self._play(task, number, len(tasks)), self.results.add)

    def _play(self, task: Task, number: int, many: int) -> Kept:
        check, built = partial(self.watch, task.label, number, many), self.built(task.weights)
        return self.store.played(task.stem, mark_of(built.digest, repr(task)), partial(play, task, built, check))

    def built(self, weights: str) -> Built:
        """Return the problem, its clients having weights by "size" or "uniform" ones."""
        if weights not in self._built:
            experiment = self.plan.paper.own.experiment
            spec = replace(experiment.problem, weights=weights)
            self._built[weights] = build(replace(experiment, problem=spec), self.plan.data)
        return self._built[weights]
