"""What the comparison finds: who is cheapest, how costs grow with C_A and with n / m, and how far the rules are from the best."""

import math

import numpy as np

import turnout as t
from turnout.accounting.prices import Selection
from turnout.report.format import count, listed, number
from turnout.theory.selection import initial_passes

COMPARED = ("quadratic", "mushrooms", "duke")
BEST, RENEWING, MEASURED = "rg-saga", "rg-svrg", "adaptive"
PASSES = (BEST, "passes-1", "passes-2")
DETAILS = ("probability", "lam", "beta")
GROWTH = (("n-10", "n-100", "n-1000"), ("flat-10", "flat-100", "flat-1000"))
EXPONENT, WITHIN, FACTOR = 0.5, 0.1, 1.5
"""The cost should grow as (n / m)^(EXPONENT ± WITHIN); a measured λ should cost at most FACTOR times the best of the grid."""


def findings(study: t.Study) -> list[str]:
    """Say what of the paper's claims holds on the problems that were played."""
    return Costs(study).sentences()


class Costs:
    """The median cost and queries of each method at the best of its grid, and sentences about them."""

    def __init__(self, study: t.Study):
        declared = study.declaration
        self.goals, self.ratios = (
            list(declared.goals),
            {name: vars(price)["arbitrary"] for name, price in declared.prices.items()},
        )
        self.titles = {name: method.title for name, method in declared.methods.items()} | declared.problems
        self.tables = declared.source.tables["problems"]
        self.table: dict[tuple, dict] = {}
        for goal in self.goals:
            for price in self.ratios:
                for row in study.best(goal, price).iter_rows(named=True):
                    self.table[row["problem"], row["method"], goal, self.ratios[price]] = row

    def sentences(self) -> list[str]:
        """Return all sentences about what was played."""
        problems = list(dict.fromkeys(key[0] for key in self.table))
        compared = [name for name in COMPARED if name in problems]
        return [
            *(self.least(problem, goal) for problem in compared for goal in self.goals),
            *(self.prices(problem) for problem in compared),
            *(self.passes(problem) for problem in problems if all(self.plays(problem, name) for name in PASSES)),
            *(self.growth(names) for names in GROWTH if {*names} <= {*problems}),
            *(self.measured(problem) for problem in problems if self.plays(problem, MEASURED)),
        ]

    def plays(self, problem: str, name: str) -> bool:
        """Return whether a method was played on a problem."""
        return (problem, name, self.goals[0], 1.0) in self.table

    def cost(self, problem: str, name: str, goal: str | None = None, ratio: float = 1.0) -> float:
        """Return a median cost; NaN where it was not played."""
        return self.table.get((problem, name, goal or self.goals[0], ratio), {}).get("cost", math.nan)

    def spent(self, problem: str, name: str, goal: str) -> str:
        """Write a cost with its queries, such as "107 (1,219 queries)"."""
        row = self.table[problem, name, goal, 1.0]
        return f"{count(row['cost'])} ({count(row['queries'])} queries)" if math.isfinite(row["cost"]) else "more than was played"

    def least(self, problem: str, goal: str) -> str:
        """Say who needs the least communication where all selections cost the same."""
        names = [name for played, name, to, ratio in self.table if (played, to, ratio) == (problem, goal, 1.0)]
        names = [name for name in names if name not in (MEASURED, *DETAILS)]
        mine, other = (
            min(some, key=lambda name: self.cost(problem, name, goal))
            for some in ([n for n in names if n in PASSES], [n for n in names if n not in PASSES])
        )
        holds = "holds" if self.cost(problem, mine, goal) <= self.cost(problem, other, goal) else "does not hold"
        return (
            f"On {self.titles[problem]}, {goal} at C_A = C_R = 1 and each at the best of its grid, {self.titles[mine]} needs "
            f"{self.spent(problem, mine, goal)}, and {self.titles[other]}, the cheapest of the others, "
            f"{self.spent(problem, other, goal)}: the claim that it needs the least communication of all {holds}."
        )

    def prices(self, problem: str) -> str:
        """Say how the costs of two methods grow with the price of arbitrary selections."""
        low, high = min(self.ratios.values()), max(self.ratios.values())
        grown = [
            f"{self.titles[name]} costs {quotient(self.cost(problem, name, ratio=high), self.cost(problem, name, ratio=low))} "
            "times as much"
            for name in (BEST, RENEWING)
        ]
        return f"On {self.titles[problem]}, at C_A = {high:g} instead of {low:g} and each at its best again, {listed(grown)}."

    def passes(self, problem: str) -> str:
        """Say how near the rule for the initial passes comes to the best number of them."""
        rule, worse = [], []
        for ratio in self.ratios.values():
            costs = [self.cost(problem, name, ratio=ratio) for name in PASSES]
            rule.append(initial_passes(Selection(ratio)))
            worse.append(quotient(costs[rule[-1]], min(costs)))
        return (
            f"On {self.titles[problem]}, {listed([str(passes) for passes in rule])} initial passes at C_A = "
            f"{listed([f'{ratio:g}' for ratio in self.ratios.values()])}, as `turnout theory` chooses, cost {listed(worse)} "
            "times the best of 0, 1 and 2."
        )

    def growth(self, problems: tuple[str, ...]) -> str:
        """Say with which power of n / m the cost grows over some problems."""
        costs = [self.cost(problem, BEST) for problem in problems]
        sizes = [self.tables[problem]["problem"]["clients"] / self.tables[problem]["sampler"]["size"] for problem in problems]
        slope = float(np.polyfit(np.log(sizes), np.log(costs), 1)[0]) if np.all(np.isfinite(costs)) else math.nan
        met = "met" if abs(slope - EXPONENT) <= WITHIN else "not met"
        return (
            f"With {listed([self.titles[problem] for problem in problems])}, {self.titles[BEST]} costs "
            f"{listed([count(cost) for cost in costs])}, which grows as n / m to the power {quotient(slope)}: the bar of "
            f"{EXPONENT:g} ± {WITHIN:g} is {met}."
        )

    def measured(self, problem: str) -> str:
        """Say how near a method that knows no constants comes to the best of the grid."""
        mine, best = self.cost(problem, MEASURED), self.cost(problem, BEST)
        met = "met" if mine <= FACTOR * best and math.isfinite(mine) else "not met"
        return (
            f"On {self.titles[problem]}, {self.titles[MEASURED]} costs {count(mine)}, {quotient(mine, best)} times the best of "
            f"the grid: the bar of {FACTOR:g} is {met}."
        )


def quotient(above: float, below: float = 1.0) -> str:
    """Write above / below, where both are known."""
    return number(above / below) if math.isfinite(above) and math.isfinite(below) else "(not known)"
