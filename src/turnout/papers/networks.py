"""What comparisons on networks find: mean costs over the seeds, and whether the claims hold for these."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

import turnout as t
from turnout.accounting.prices import Exchanges, Price
from turnout.accounting.target import smaller_better
from turnout.report.format import number
from turnout.studies.declaration import Claim

NAMES = {"accuracy": "training accuracy", "test_accuracy": "test accuracy", "value": "training loss"}
COMMON, MEASURE = "common test accuracy", "uniform"
"""A goal that is lowered to what the mean over the runs of a method comes to, and that method."""


class Costs(NamedTuple):
    """The cost of each run of a method at its best setting, infinite where the goal is not reached, and of each whole run.

    For a goal without a level it is the best value of the metric.
    """

    values: np.ndarray
    spent: np.ndarray

    @property
    def mean(self) -> float:
        """The mean over all runs: infinite where one of them does not reach the goal."""
        return float(self.values.mean())

    @property
    def least(self) -> float:
        """The mean where runs that do not reach the goal count as if they did at their ends: a lower bound."""
        return float(np.minimum(self.values, self.spent).mean())

    def __str__(self) -> str:
        size, reached = self.values.size, int(np.isfinite(self.values).sum())
        if reached < size:
            return f"more than {number(self.least)} ({reached} of {size} arrived)"
        return number(self.mean) + (f" ± {self.values.std(ddof=1) / size**0.5:.2g}" if size > 1 else "")


def findings(study: t.Study) -> list[str]:
    """Say for each claim what the methods cost in the mean, with standard errors, and whether it holds for these means."""
    return [
        sentence(study, claim, problem)
        for claim in study.declaration.claims
        for problem in claim.problems or ()
        if {claim.method, claim.rival} <= played(study, problem)
    ]


def played(study: t.Study, problem: str) -> set[str]:
    """Return the methods that were played on a problem."""
    return {*study.runs.filter(pl.col("problem") == problem, pl.col("purpose") == "report")["method"]}


def sentence(study: t.Study, claim: Claim, problem: str) -> str:
    """Say what the methods of a claim cost on a problem."""
    declared, price, goal = study.declaration, study.price(claim.price), study.goal(claim.goal)
    if claim.goal == COMMON and MEASURE in played(study, problem):
        goal = common(study, problem, goal, price)
    own, rival = (costs(study, problem, name, goal, price) for name in (claim.method, claim.rival))
    titles = [declared.methods[name].title for name in (claim.method, claim.rival)]
    where, metric, upwards = declared.problems[problem], NAMES[goal.metric], goal.metric.endswith("accuracy")
    if not goal.levelled:
        holds = "holds" if (own.mean > rival.mean if upwards else own.mean < rival.mean) else "does not hold"
        return (
            f"On {where}, the best {metric} of {titles[0]} is {own} and of {titles[1]} {rival} ({own.values.size} seeds): that "
            f"the first is better {holds}."
        )
    met = "met" if own.mean <= claim.at_most * rival.least else "not met"
    bound = "" if math.isfinite(rival.mean) else "at most "
    ratio = f"{bound}{number(own.mean / rival.least)}" if math.isfinite(own.mean) else "not known"
    paid = "exchanges" if isinstance(price, Exchanges) else price.label
    level = number(1 - (goal.below or 0) if upwards else goal.below or 0)
    return (
        f"On {where}, a {metric} of {level} costs {titles[0]} {own} and {titles[1]} {rival} ({paid}, {own.values.size} seeds), a "
        f"ratio of {ratio}: the bar of {claim.at_most:g} is {met}."
    )


def runs(study: t.Study, problem: str, method: str, goal: t.Goal, price: Price) -> list[pl.DataFrame]:
    """Return the reported runs of a method at its best setting."""
    mine = (pl.col("problem") == problem) & (pl.col("method") == method)
    best = study.best(goal, price).row(by_predicate=mine, named=True)
    rows = study.runs.filter(mine, pl.col("purpose") == "report", pl.col("setting") == best["setting"])
    return rows.partition_by("seed", maintain_order=True)


def costs(study: t.Study, problem: str, method: str, goal: t.Goal, price: Price) -> Costs:
    """Return what a goal costs the runs of a method."""
    values, spent = [], []
    for run in runs(study, problem, method, goal, price):
        metric, cost = run[goal.metric].to_numpy(), np.asarray(price.cost(run), float)
        errors = smaller_better(goal.metric, metric)
        spent.append(cost[-1])
        if not goal.levelled:
            values.append(metric[np.argmin(errors)])
            continue
        # A value at the level itself, up to rounding, reaches it.
        met = errors <= (goal.below or 0) + 1e-12
        values.append(cost[np.argmax(met)] if met.any() else math.inf)
    return Costs(np.array(values), np.array(spent))


def common(study: t.Study, problem: str, goal: t.Goal, price: Price) -> t.Goal:
    """Return a goal no further than the mean over the runs of `MEASURE` comes."""
    rows = pl.concat(runs(study, problem, MEASURE, goal, price))
    means = rows.group_by("round").agg(pl.col(goal.metric).mean())[goal.metric].to_numpy()
    return replace(goal, below=max(goal.below or 0, float(np.min(smaller_better(goal.metric, means)))))
