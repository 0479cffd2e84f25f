"""What the comparison finds: the paper's reductions against LocalGD, and whose gain they are."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

import turnout as t
from turnout.report.format import listed, number

NICE = ("localgd-nice", "localgd-nice-local")
STRATIFIED = ("localgd-stratified", "localgd-stratified-local")
SPPM = ("sppm-bfgs", "sppm-cg")
LADDER = {
    "LocalGD, NICE, constant step": NICE,
    "LocalGD, NICE, decreasing step": ("localgd-nice-decay",),
    "LocalGD, NICE shuffled, constant step": ("localgd-nice-shuffled",),
    "LocalGD, NICE shuffled, decreasing step": ("localgd-nice-shuffled-decay",),
    "LocalGD, strata, constant step": STRATIFIED,
    "LocalGD, strata, decreasing step": ("localgd-stratified-decay",),
    "LocalGD, shuffled strata, constant step": ("localgd-stratified-shuffled",),
    "LocalGD, shuffled strata, decreasing step": ("localgd-stratified-shuffled-decay",),
    "SPPM-SS, paper's form": SPPM,
    "CSS-Newton, shuffled strata": ("css-newton",),
    "CSS-Newton, two exchanges with the first cohort": ("css-newton-hierarchical",),
}
NORMALISED = "-rows"
"""How the names of problems with normalised rows end."""

FLAT, HUBS = ("exchanges", "iterations"), ("hubs, 0.1", "iterations and hubs, 0.1")
"""Each price in true exchanges, and in solver iterations as the paper counts."""

LOCALGD, PRINTED = 39, {FLAT: (10, 74.36), HUBS: (2, 94.87)}
"""What the paper prints for a6a and 0.005: the cost of LocalGD, and that of SPPM-SS with its reduction in percent."""


class Entry(NamedTuple):
    """The median cost, on fresh seeds, of the best setting of some methods."""

    cost: float
    setting: str


def findings(study: t.Study) -> list[str]:
    """Say whether the paper's numbers are reached, and why not."""
    return Costs(study).sentences()


class Costs:
    """The costs of the best settings, and sentences about them."""

    def __init__(self, study: t.Study):
        self.study, self.methods = study, {*study.declaration.methods}
        played = set(study.runs["problem"].unique())
        self.played = [name for name in study.declaration.problems if name in played]
        self.problems = [name for name in self.played if not name.endswith(NORMALISED)]
        self.titles = study.declaration.problems
        self.goal = next(iter(study.declaration.goals))
        self.below = study.goal(self.goal).below

    def sentences(self) -> list[str]:
        """Return all sentences about what was played."""
        whole = all({*names} & self.methods for names in (NICE, STRATIFIED, SPPM))
        bases = [name for name in ("a6a", f"a6a{NORMALISED}") if name in self.played]
        printed = [self.claim(base, *pair) for base in bases for pair in (FLAT, HUBS)] if whole else []
        return [
            *printed,
            *(self.one_cohort(name) for name in self.played if {*SPPM} & self.methods),
            *(self.everywhere() if whole else []),
            *(self.ladder() if {name for rung in LADDER.values() for name in rung} <= self.methods else []),
        ]

    def entry(self, problem: str, methods: Iterable[str], price: str, goal: str | None = None) -> Entry:
        """Return the best of those `methods` that were played, chosen on the seeds that tune where there are several."""
        names, goal = [name for name in methods if name in self.methods], goal or self.goal
        if len(names) > 1:
            costs = self.study.costs(goal, price)
            rows = costs.filter(pl.col("purpose") == "tune", pl.col("problem") == problem, pl.col("method").is_in(names))
            names = [rows.sort("cost", "mean", maintain_order=True)["method"][0]]
        best = self.study.best(goal, price)
        row = best.row(by_predicate=(pl.col("problem") == problem) & (pl.col("method") == names[0]), named=True)
        reached = math.isfinite(row["cost"])
        return Entry(row["cost"], f"{names[0]}, {row['setting']}" if reached else "no setting reached it")

    def saved(self, problem: str, price: str, against: Iterable[str] = NICE, methods: Iterable[str] = SPPM, goal=None) -> float:
        """Return by how many percent the best of `methods` is cheaper; LocalGD is charged true exchanges; NaN if unknown."""
        true = {FLAT[1]: FLAT[0], HUBS[1]: HUBS[0]}.get(price, price)
        mine, rival = self.entry(problem, methods, price, goal).cost, self.entry(problem, against, true, goal).cost
        return 100 * (1 - mine / rival) if math.isfinite(mine) and math.isfinite(rival) else math.nan

    def claim(self, problem: str, true: str, iterations: str) -> str:
        """Set what the paper prints for its base setting beside what was found."""
        theirs, promised = PRINTED[true, iterations]
        saved = {price: self.saved(problem, price) for price in (iterations, true)}
        reached = "reached" if any(value >= promised for value in saved.values()) else "not reached"
        rival = self.entry(problem, NICE, true)
        counted = [
            f"{cost(self.entry(problem, SPPM, price))} in {name}, {percent(saved[price])} saved"
            for price, name in ((iterations, "solver iterations"), (true, "true exchanges"))
        ]
        charged = 1.1 * LOCALGD
        remark = (
            f" The printed number charges LocalGD {LOCALGD}; with (c1 + c2) T it is {charged:g}, and {theirs:g} against that "
            f"saves {100 * (1 - theirs / charged):.2f} %."
        )
        return (
            f"{self.titles[problem]}, ε = {self.below:g}, {'flat' if true == FLAT[0] else 'hierarchical, c1 = 0.1'}: the paper "
            f"prints {theirs:g} against {LOCALGD}, {promised:g} % saved; here this is {reached}. LocalGD with uniform cohorts "
            f"needs {cost(rival)}; SPPM-SS {listed(counted)}.{remark if true == HUBS[0] else ''}"
        )

    def one_cohort(self, problem: str) -> str:
        """Say how near one cohort alone comes to the targets: both printed numbers are those of a single cohort."""
        runs = self.study.runs.filter(pl.col("problem") == problem, pl.col("method").is_in(SPPM))
        first = runs.filter(pl.col("round") == 1)
        settings = first.filter(pl.col("purpose") == "tune").group_by("method", "setting", maintain_order=True)
        near = settings.agg(pl.col("distance").quantile(0.5, "higher")).sort("distance").row(0, named=True)
        goals = [self.study.goal(name).below for name in self.study.declaration.goals]
        met = [first.filter(pl.col("distance") < below).height for below in goals]
        counts = [f"{count:,} met ε = {below:g}" for count, below in zip(met, goals, strict=True)]
        left = "in some runs it is below the targets" if any(met) else "it is above the targets in all runs"
        return (
            f"Both printed numbers are those of one cohort, solved well. Of {first.height:,} runs of SPPM-SS on "
            f"{self.titles[problem]}, {listed(counts)} with one cohort; the nearest setting ({near['setting']}) has a median "
            f"distance of {near['distance']:.2g} after it. What remains is its sampling error, which no solver removes; "
            f"{left}."
        )

    def everywhere(self) -> list[str]:
        """Say on which data sets the paper's reductions are reached, against LocalGD with each sampler."""
        normalised = [name for name in self.played if name.endswith(NORMALISED)]
        compared = (
            ("rows as they are", self.problems, NICE, "uniform cohorts"),
            ("rows as they are", self.problems, STRATIFIED, "the same strata"),
            ("normalised rows", normalised, NICE, "uniform cohorts"),
            ("normalised rows", normalised, STRATIFIED, "the same strata"),
        )
        return [
            f"All exchanges counted, {kind}, {rows}, against LocalGD with {sampler}: the paper prints "
            f"{PRINTED[pair][1]:g} % saved; its form saves, {self.by_goal(problems, pair[0], rivals)}."
            for rows, problems, rivals, sampler in compared
            for pair, kind in ((FLAT, "flat"), (HUBS, "hierarchical, c1 = 0.1"))
            if problems
        ]

    def by_goal(self, problems: list[str], price: str, rivals: tuple[str, ...]) -> str:
        """List what is saved on each of some problems, for each goal."""
        parts = []
        for goal in self.study.declaration.goals:
            saved = [
                f"{percent(self.saved(name, price, rivals, goal=goal))} on {name.removesuffix(NORMALISED)}" for name in problems
            ]
            parts.append(f"at ε = {self.study.goal(goal).below:g}, {listed(saved)}")
        return "; ".join(parts)

    def ladder(self) -> list[str]:
        """Say which rungs save the paper's flat reduction on every data set."""
        promised, sentences = PRINTED[FLAT][1], []
        for label, methods in LADDER.items():
            saved = [self.saved(name, FLAT[0], NICE, methods) for name in self.problems]
            if all(value >= promised for value in saved):
                pairs = [
                    (self.entry(name, NICE, FLAT[0]).cost, self.entry(name, methods, FLAT[0]).cost) for name in self.problems
                ]
                counts = [f"{name} {number(a)} → {number(b)}" for name, (a, b) in zip(self.problems, pairs, strict=True)]
                sentences.append(
                    f"{label} saves {promised:g} % or more of the true exchanges on every data set at ε = {self.below:g}: "
                    f"{listed(counts)}."
                )
        none = f"Nothing in the ladder saves {promised:g} % of the true exchanges on every data set at ε = {self.below:g}."
        return sentences or [none]


def cost(entry: Entry) -> str:
    """Write a median cost with its setting."""
    return f"{number(round(entry.cost, 2)) if math.isfinite(entry.cost) else 'not reached'} ({entry.setting})"


def percent(value: float) -> str:
    """Write a reduction; one below zero is an increase."""
    return "–" if math.isnan(value) else f"{value:.1f} %"
