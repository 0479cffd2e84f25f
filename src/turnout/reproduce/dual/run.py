"""A whole comparison of dual and primal methods: what has to be played, and what is kept of it already."""

import math
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl

from turnout.experiment.build import Built, build
from turnout.problems.optimum import solve
from turnout.reproduce.dual.paper import Figure, Paper, Setting
from turnout.reproduce.dual.play import Task, play
from turnout.reproduce.parallel import group_by_group, side_by_side
from turnout.reproduce.store import Kept, Played, Store, Watch, mark_of


@dataclass(frozen=True)
class Plan:
    """What to reproduce on `sets`: figures of a paper, and its tables too where `whole`, each contender with `seeds` seeds."""

    paper: Paper
    figures: list[Figure]
    whole: bool
    sets: list[str]
    seeds: int
    data: Path | None = None

    def tasks(self) -> list[Task]:
        """Return what has to be played, set by set."""
        wanted = {(panel.set, name, panel.tau) for figure in self.figures for panel in figure.panels for name in panel.contenders}
        tasks = []
        for name in self.sets:
            setting = self.paper.settings[name]
            for tau in setting.rounds:
                names = [each for each in setting.contenders if self.whole or (name, each, tau) in wanted]
                tasks += [self.task(setting, each, tau) for each in names]
        return tasks

    def task(self, setting: Setting, name: str, tau: int) -> Task:
        """Return what `name` plays on a set; where the last table looks at all rounds a run goes on to its last one."""
        least = min(setup.below for setup in self.paper.setups if setup.tau == tau)
        until = -math.inf if setting.name in self.paper.accuracy.sets else self.paper.until * least
        experiment = setting.experiment(name, self.paper.contenders[name], tau)
        return Task(setting.name, name, tau, list(range(self.seeds_of(setting))), until, experiment)

    def seeds_of(self, setting: Setting) -> int:
        """Return how many seeds are played on a set."""
        return min(self.seeds, setting.seeds or self.seeds)


@dataclass
class Results(Played):
    """The rounds of all tasks played (see `play.play`), their seconds, and f* of each set."""

    rounds: pl.DataFrame = field(default_factory=pl.DataFrame)
    each: dict[str, float] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)

    def add(self, task: Task, kept: Kept) -> None:
        super().add(task, kept)
        self.each[task.stem] = round(kept.seconds, 1)
        self.rounds = pl.concat([self.rounds, kept.frames["rounds"]], how="diagonal_relaxed")


class Player:
    """Plays tasks, each once, and keeps what they leave."""

    def __init__(self, plan: Plan, folder: Path, watch: Watch):
        self.plan, self.watch, self.store, self.results = plan, watch, Store(folder), Results()

    def play(self, tasks: list[Task]) -> None:
        """Play those of `tasks` that are not kept; one set after another, so that only one is in memory."""
        group_by_group(tasks, lambda task: task.set, partial(self._play_set, many=len(tasks)))

    def _play_set(self, name: str, tasks: list[Task], done: int, many: int) -> None:
        self.watch(f"{name}, least value", done, many)
        built = self.built(name)
        least = self.results.least[name] = self.least(name, built)

        def one(task: Task, number: int) -> Kept:
            check, mark = partial(self.watch, task.stem, done + number, many), mark_of(built.digest, repr(task), least)
            return self.store.played(task.stem, mark, partial(play, task, built, least, check))

        side_by_side(tasks, one, self.results.add)

    def built(self, name: str) -> Built:
        """Return a set's problem; its digest is that of its first contender, whatever is to be played."""
        paper, setting = self.plan.paper, self.plan.paper.settings[name]
        first = setting.contenders[0]
        return build(setting.experiment(first, paper.contenders[first], next(iter(setting.rounds))), self.plan.data)

    def least(self, name: str, built: Built) -> float:
        """Return f* of a set, solved for once where the paper does not say it."""
        known = self.plan.paper.settings[name].least
        if known is not None:
            return known

        def solved() -> dict[str, pl.DataFrame]:
            return {"least": pl.DataFrame({"value": [solve(built.problem).value]})}

        kept = self.store.played(f"{name}-least", mark_of(built.digest), solved)
        self.results.seconds += kept.seconds
        return float(kept.frames["least"]["value"][0])
