"""The arithmetic of a comparison on networks: what goals cost, and the setting of each contender that costs the least."""

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import polars as pl

from turnout.reproduce.networks.paper import Goal, Paper, told


@dataclass(frozen=True)
class Entry:
    """What a goal cost each run of a setting, infinite where it was not reached; or for a goal without a level, its best values.

    `spent` is what each run had cost at its end, which a run that did not arrive would have exceeded.
    """

    setting: str
    costs: np.ndarray
    spent: np.ndarray

    @property
    def arrived(self) -> int:
        """How many runs reached the goal."""
        return int(np.isfinite(self.costs).sum())

    @property
    def mean(self) -> float:
        """The mean over all runs: infinite where one of them did not arrive."""
        return float(self.costs.mean()) if self.costs.size else math.nan

    @property
    def least(self) -> float:
        """The mean with those that did not arrive counted as if they had at their ends: a lower bound."""
        return float(np.minimum(self.costs, self.spent).mean()) if self.costs.size else math.nan

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        many = self.costs.size
        return float(self.costs.std(ddof=1) / many**0.5) if many > 1 and self.arrived == many else math.nan


class Numbers:
    """Finds the best setting of each contender for a goal in the rows that tune, and what it came to in those that report."""

    def __init__(self, paper: Paper, tuning: pl.DataFrame, rows: pl.DataFrame):
        self.paper, self.tuning, self.rows = paper, tuning, rows

    def settings(self, problem: str, name: str, goal: Goal, each: bool = False) -> list[tuple[float | None, str]]:
        """Return the best setting for a goal, or where `each` that for every number the contender goes along, and that number."""
        contender = self.paper.contenders[name]
        settings = contender.settings()
        if len(settings) == 1:
            return [(settings[0].get(contender.along or ""), told(settings[0]))]
        mine = self.tuning.filter(pl.col("problem") == problem, pl.col("contender") == name)
        parts = [(key[0], part) for key, part in mine.group_by("along", maintain_order=True)] if each else [(None, mine)]
        return [(cast(float | None, along), self._best(part, self.known(problem, goal))) for along, part in parts]

    def entry(self, problem: str, name: str, goal: Goal, setting: str | None = None) -> Entry:
        """Return what a goal cost a contender at a `setting`, or at its best one."""
        goal = self.known(problem, goal)
        if setting is None:
            ((_, setting),) = self.settings(problem, name, goal)
        return Entry(setting, *costs(self.runs(problem, name, setting), goal))

    def runs(self, problem: str, name: str, setting: str) -> pl.DataFrame:
        """Return the rows of the runs that report a setting."""
        wanted = {"problem": problem, "contender": name, "setting": setting}
        return self.rows.filter(*(pl.col(key) == value for key, value in wanted.items()))

    def known(self, problem: str, goal: Goal) -> Goal:
        """Return `goal` with a level that is "common" as a number, found in what the paper's measure reports."""
        return replace(goal, level=self.common(problem, goal)) if goal.level == "common" else goal

    def common(self, problem: str, goal: Goal) -> float:
        """Return the best mean over the measure's runs, at its best, of the goal's metric, but no better than the ceiling."""
        measure, best = str(self.paper.measure), replace(goal, level=None)
        ((_, setting),) = self.settings(problem, measure, best)
        means = self.runs(problem, measure, setting).group_by("round").agg(pl.col(goal.metric).mean())[goal.metric].to_numpy()
        reached = float(np.max(means) if goal.upwards else np.min(means))
        if self.paper.ceiling is None:
            return reached
        return min(reached, self.paper.ceiling) if goal.upwards else max(reached, self.paper.ceiling)

    def _best(self, rows: pl.DataFrame, goal: Goal) -> str:
        """Return the setting whose runs have the least mean cost, or where none arrives, the best values of the metric."""

        def order(setting: str) -> tuple[float, float]:
            runs = rows.filter(pl.col("setting") == setting)
            values, _ = costs(runs, replace(goal, level=None))
            worst = -values.mean() if goal.upwards else values.mean()
            return (math.inf if goal.level is None else float(costs(runs, goal)[0].mean())), float(worst)

        return min(rows["setting"].unique(maintain_order=True), key=order)


def costs(runs: pl.DataFrame, goal: Goal) -> tuple[np.ndarray, np.ndarray]:
    """Return what `goal` cost each of the runs, infinite where it was not reached, and what they had cost at their ends.

    Of a goal without a level it returns the best values instead.
    """
    found, spent = [], []
    for _, run in runs.group_by("seed", maintain_order=True):
        values, cost = run[goal.metric].to_numpy(), np.asarray(goal.price.cost(run), float)
        spent.append(cost[-1])
        if goal.level is None:
            found.append(values.max() if goal.upwards else values.min())
            continue
        met = values >= goal.level if goal.upwards else values <= goal.level
        found.append(cost[np.argmax(met)] if met.any() else math.inf)
    return np.array(found, float), np.array(spent, float)
