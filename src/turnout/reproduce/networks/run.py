"""A whole comparison on networks: what has to be played, and what is kept of it already."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl

from turnout.experiment.build import Built, build
from turnout.reproduce.networks.paper import Figure, Goal, Paper
from turnout.reproduce.networks.play import Task, play
from turnout.reproduce.parallel import group_by_group, side_by_side
from turnout.reproduce.store import Kept, Played, Store, Watch, mark_of

FRESH = 1000
"""The first of the seeds that report what was tuned on seeds 0, 1, ..."""


@dataclass(frozen=True)
class Plan:
    """What to reproduce on `problems`: figures of a paper, and its tables too where `whole`, reported with `seeds` seeds."""

    paper: Paper
    figures: list[Figure]
    whole: bool
    problems: list[str]
    seeds: int
    data: Path | None = None

    def questions(self) -> list[tuple[str, str, Goal, bool]]:
        """Return the problem, contender and goal of all that is shown, and whether for each number that it goes along."""
        panels = [panel for figure in self.figures for panel in figure.shown(self.problems)]
        asked = [
            (panel.problem, name, goal, panel.kind == "along" and self.paper.contenders[name].along is not None)
            for panel in panels
            for goal in panel.goals
            for name in panel.contenders
        ]
        if self.whole:
            for problem in self.problems:
                goals = [column.goal for column in self.paper.columns_of(problem)]
                asked += [(problem, name, goal, False) for name in self.paper.settings[problem].contenders for goal in goals]
        return list(dict.fromkeys(asked))

    def tasks(self, chosen: set[tuple[str, str, str]] | None = None) -> list[Task]:
        """Return what plays to report the settings `chosen`; before any are, to tune those with a choice, and the measure."""
        paper, found = self.paper, []
        for problem, name in dict.fromkeys(question[:2] for question in self.questions()):
            contender = paper.contenders[name]
            settings = contender.settings()
            if chosen is None and len(settings) == 1 and name != paper.measure:
                continue
            seeds = range(paper.tuning) if chosen is None else range(FRESH, FRESH + self.seeds)
            tasks = [Task(paper.settings[problem], name, contender, values, seed) for values in settings for seed in seeds]
            found += [task for task in tasks if chosen is None or task.key in chosen]
        return sorted(found, key=lambda task: self.problems.index(task.setting.name))


@dataclass
class Results(Played):
    """The rows of all runs (see `play.play`), and their seconds."""

    rows: pl.DataFrame = field(default_factory=pl.DataFrame)

    def add(self, task: Task, kept: Kept) -> None:
        super().add(task, kept)
        self.rows = pl.concat([self.rows, kept.frames["rows"]], how="diagonal_relaxed")


class Player:
    """Plays tasks, each once, and keeps what they leave."""

    def __init__(self, plan: Plan, folder: Path, watch: Watch):
        self.plan, self.watch, self.store = plan, watch, Store(folder)
        self._built: dict[tuple[str, str], Built] = {}

    def play(self, tasks: list[Task]) -> Results:
        """Return the results of `tasks`, playing those that are not kept, one problem after another."""
        results = Results()
        group_by_group(tasks, lambda task: task.setting.name, partial(self._play_problem, results=results, many=len(tasks)))
        return results

    def _play_problem(self, name: str, tasks: list[Task], done: int, results: Results, many: int) -> None:
        for task in tasks:
            self.problem(name, task.name)

        def one(task: Task, number: int) -> Kept:
            built, check = self.problem(name, task.name), partial(self.watch, task.label, done + number, many)
            return self.store.played(
                task.stem, mark_of(built.digest, task.experiment.to_toml()), partial(play, task, built, check)
            )

        side_by_side(tasks, one, results.add)

    def problem(self, name: str, who: str | None = None) -> Built:
        """Return a problem as `who` plays it, by default the first of its contenders: the same for all that do not change it."""
        setting, contenders = self.plan.paper.settings[name], self.plan.paper.contenders
        own = contenders[who or setting.contenders[0]].problem
        if (name, repr(own)) not in self._built:
            first = next(each for each in setting.contenders if contenders[each].problem == own)
            experiment = setting.experiment(first, contenders[first], contenders[first].settings()[0])
            self._built[name, repr(own)] = build(experiment, self.plan.data)
        return self._built[name, repr(own)]
