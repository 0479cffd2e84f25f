"""The regime map: who is the cheapest in each cell, each ablation, the theorem's boundaries, and what one setting saves."""

import math
from itertools import product

import numpy as np
import polars as pl

import turnout as t
from turnout.accounting.prices import Selection
from turnout.experiment.problem_specs import LogSumSpec
from turnout.report.format import count, listed, number
from turnout.report.lines import SCHEMA
from turnout.studies.exhibits import OwnChart
from turnout.theory.dissimilarity import exact
from turnout.theory.selection import Case
from turnout.theory.selection_complexity import TABLE

MINE = ("rg-saga", "printed", "long")
"""RG-SAGA with all its knobs, as it is printed, and with 1,000 local steps."""

LAZY, SHORT = "lazy-dane", "lazy-dane-10"
BAR, DEAR = 0.8, (5.0, 20.0)
"""What lazy DANE should cost at most, in shares of the best of all grids, at which C_A."""

STEPS = {"gd": 1.0, "printed": 20.0, "long": 1000.0, LAZY: 100.0, SHORT: 10.0}
"""Local steps of methods that do not sweep them."""

GROWING = (("steep-1", "steep-5", "steep-30"), ("shallow-1", "shallow-5", "shallow-30"))
"""Problems that differ in delta."""

BUDGETS = (10.0, 100.0)
"""Limits on the local steps beside none."""

ABLATED = (("E.1", "algorithm.estimator.passes", "initial passes"), ("E.2", "algorithm.steps", "local steps"))
KNOBS = (*ABLATED, ("E.3", "algorithm.lam", "λ / L"), ("E.4", "algorithm.estimator.beta", "β"))
"""The knobs of RG-SAGA, and where the paper varies them."""

NAMED = {
    "GD": "gd",
    "FedRed": "fedred",
    "FedDyn": "feddyn",
    "Scaffold": "scaffold",
    "SABER-full": "saber-full",
    "I-CGM-RG-SVRG": "rg-svrg",
}
"""Rivals in the theory's table 1, and their names here."""


def findings(study: t.Study) -> list[str]:
    """Say who is the cheapest where, and what of the paper's claims holds."""
    return Regimes(study).sentences()


def exhibits(study: t.Study) -> list[OwnChart]:
    """Return the regime map, if anything of it was played."""
    cells = Regimes(study).cells()
    return [regime_map(cells)] if cells else []


def budget(row: dict) -> float:
    """Return the local steps of a setting, expected ones where they are random."""
    if row["method"] in STEPS:
        return STEPS[row["method"]]
    if row.get("algorithm.solver") == "exact":
        return math.inf
    fixed = row.get("algorithm.steps") or row.get("algorithm.solver.steps")
    return fixed or 1 / row["algorithm.probability"]


class Regimes:
    """The median cost of every setting at every goal and price, and sentences about them."""

    def __init__(self, study: t.Study):
        declared = study.declaration
        self.tables = declared.source.tables["problems"]
        self.titles = {name: method.title for name, method in declared.methods.items()} | declared.problems
        self.ratios = {vars(price)["arbitrary"]: name for name, price in declared.prices.items()}
        self.goals = list(declared.goals)
        self.costs = {(goal, ratio): self.table(study, goal, name) for goal in self.goals for ratio, name in self.ratios.items()}
        present = pl.concat([table.select("problem", "method") for table in self.costs.values()]).unique()
        self.played = {*present.iter_rows()}
        self.problems = [name for name in declared.problems if any(problem == name for problem, _ in self.played)]

    def table(self, study: t.Study, goal: str, price: str) -> pl.DataFrame:
        """Return the settings with their cost and local steps."""
        costs = study.costs(goal, price)
        return costs.with_columns(budget=pl.Series([budget(row) for row in costs.iter_rows(named=True)], dtype=pl.Float64))

    def sentences(self) -> list[str]:
        """Return all sentences about what was played."""
        whole = self.whole()
        quadratics = [name for name in whole if self.quadratic(name)]
        return [
            *(self.cell(problem, goal) for goal in self.goals for problem in whole),
            *(self.tally(whole, ratio) for ratio in self.ratios if whole),
            *(self.ablation(problem, *knob) for knob in KNOBS for problem in quadratics),
            *(self.prices(problem) for problem in whole),
            *(self.spread(names) for names in GROWING if {*names} <= {*quadratics}),
            *(self.boundary(problem) for problem in quadratics),
            *(self.saved(whole, goal, ratio) for goal in self.goals for ratio in DEAR if self.all_play(whole, LAZY)),
        ]

    def whole(self) -> list[str]:
        """Return the problems on which RG-SAGA and some rivals were played."""
        return [name for name in self.problems if (name, MINE[0]) in self.played and len(self.rivals(name)) > 1]

    def quadratic(self, problem: str) -> bool:
        """Return whether the constants of a problem are known."""
        return self.tables[problem]["problem"]["kind"] == "log-sum"

    def cells(self) -> list[dict]:
        """Return the cheapest method for each problem, goal, C_A and local budget, and whether the theorem names RG-SAGA."""
        cells = []
        for problem, goal, steps in product(self.whole(), self.goals, (*BUDGETS, math.inf)):
            for ratio in self.ratios:
                (name, cost), *_ = self.order(problem, goal, ratio, steps)
                named = self.quadratic(problem) and all(crossing(self.tables[problem], title) <= ratio for title in NAMED)
                cell = {"problem": self.titles[problem], "goal": goal, "C_A": ratio, "RG-SAGA by the theorem": named}
                arrived = {"cheapest": name, "cost": count(cost)} if math.isfinite(cost) else {"cheapest": "nobody", "cost": ""}
                limit = "any number of local steps" if math.isinf(steps) else f"at most {steps:g} local steps"
                cells.append({**cell, "budget": limit, **arrived})
        return cells

    def all_play(self, problems: list[str], method: str) -> bool:
        """Return whether there are problems, and a method was played on all of them."""
        return bool(problems) and all((problem, method) in self.played for problem in problems)

    def rivals(self, problem: str) -> list[str]:
        """Return the methods of the papers, without those of RG-SAGA."""
        own = {*MINE, LAZY, SHORT, "measured"}
        return sorted({method for played, method in self.played if played == problem and method not in own})

    def cost(self, problem: str, methods, goal: str | None = None, ratio: float = 1.0, steps: float = math.inf) -> float:
        """Return the least cost of some methods with at most so many local steps; infinite where none arrives."""
        table = self.costs[goal or self.goals[0], ratio]
        chosen = table.filter(pl.col("problem") == problem, pl.col("method").is_in(list(methods)), pl.col("budget") <= steps)
        return float(chosen["cost"].min()) if chosen.height else math.inf

    def order(self, problem: str, goal: str, ratio: float, steps: float = math.inf) -> list[tuple[str, float]]:
        """Return the methods of the papers with their least costs, the cheapest first; RG-SAGA counts once."""
        mine = (self.titles[MINE[0]], self.cost(problem, MINE, goal, ratio, steps))
        others = [(self.titles[name], self.cost(problem, [name], goal, ratio, steps)) for name in self.rivals(problem)]
        return sorted([mine, *others], key=lambda each: each[1])

    def first_two(self, problem: str, goal: str, ratio: float, steps: float = math.inf) -> str:
        """Write the cheapest method and the next one, such as "FedRed 33 (SABER-full 48)"."""
        (best, cost), (next_best, more), *_ = self.order(problem, goal, ratio, steps)
        if not math.isfinite(cost):
            return "nobody arrives"
        return f"{best} {count(cost)} ({next_best} {count(more)})" if math.isfinite(more) else f"{best} {count(cost)} alone"

    def cell(self, problem: str, goal: str) -> str:
        """Say who is the cheapest on a problem at each price and local budget."""
        parts = [
            f"with {'any number of' if math.isinf(steps) else f'at most {steps:g}'} local steps "
            + ", ".join(f"{self.first_two(problem, goal, ratio, steps)} at C_A = {ratio:g}" for ratio in (1.0, *DEAR))
            for steps in (math.inf, *reversed(BUDGETS))
        ]
        return f"On {self.titles[problem]}, {goal}, the cheapest and the next are: {'; '.join(parts)}."

    def tally(self, problems: list[str], ratio: float) -> str:
        """Say in how many cells RG-SAGA is the cheapest, and who is elsewhere."""
        firsts = [self.order(problem, goal, ratio)[0] for problem in problems for goal in self.goals]
        names = [name for name, cost in firsts if math.isfinite(cost)]
        counts = {name: names.count(name) for name in dict.fromkeys(names)}
        mine = counts.pop(self.titles[MINE[0]], 0)
        others = listed([f"{name} in {times}" for name, times in counts.items()]) if counts else "nobody else in any"
        return (
            f"At C_A = {ratio:g}, RG-SAGA is the cheapest in {mine} of {len(names)} cells of a problem and a goal that anyone "
            f"arrives at, {others}: that it needs the least communication {'holds' if mine == len(names) else 'does not hold'}."
        )

    def ablation(self, problem: str, figure: str, key: str, words: str) -> str:
        """Say what each value of one knob of RG-SAGA costs, the others at their best."""
        written = []
        for ratio in (1.0, DEAR[0]):
            table = self.costs[self.goals[0], ratio]
            rows = table.filter(pl.col("problem") == problem, pl.col("method") == MINE[0])
            best = rows.group_by(key).agg(pl.col("cost").min()).sort(key)
            values = [f"{value:g}" for value in best[key]]
            costs = [count(cost) if math.isfinite(cost) else "never" for cost in best["cost"]]
            written.append(f"{', '.join(costs)} at C_A = {ratio:g}")
        return f"{figure}: on {self.titles[problem]}, {words} {', '.join(values)} cost {' and '.join(written)}."

    def prices(self, problem: str) -> str:
        """Say how the costs of two methods grow with the price of arbitrary selections."""
        both = [
            f"{self.titles[name]} {', '.join(count(self.cost(problem, [name], ratio=ratio)) for ratio in self.ratios)}"
            for name in (MINE[0], "rg-svrg")
            if (problem, name) in self.played
        ]
        prices = listed([f"{ratio:g}" for ratio in self.ratios])
        return f"E.5: on {self.titles[problem]} and each at its best again, C_A = {prices} cost {' and '.join(both)}."

    def spread(self, problems: tuple[str, ...]) -> str:
        """Say what RG-SAGA and the cheapest other method cost as the clients differ more."""
        parts = []
        for problem in problems:
            others = [each for each in self.order(problem, self.goals[0], 1.0) if each[0] != self.titles[MINE[0]]]
            parts.append(
                f"{written(self.cost(problem, MINE))} on {self.titles[problem]} ({others[0][0]} {written(others[0][1])})"
            )
        return f"E.7: at C_A = 1 RG-SAGA (and the cheapest other method) costs {', '.join(parts)}."

    def boundary(self, problem: str) -> str:
        """Say at which C_A RG-SAGA costs no more than each rival, as measured and by the orders of table 1."""
        parts = []
        for title, rival in NAMED.items():
            costs = {ratio: [self.cost(problem, names, ratio=ratio) for names in (MINE, [rival])] for ratio in self.ratios}
            seen = [f"{ratio:g}" for ratio, (mine, other) in costs.items() if mine <= other and math.isfinite(mine)]
            theory = f"from {number(crossing(self.tables[problem], title))} on"
            if (problem, rival) in self.played:
                parts.append(f"{self.titles[rival]} at {', '.join(seen) if seen else 'none'} ({theory})")
        return f"On {self.titles[problem]} RG-SAGA costs no more than these at C_A (by the theorem's orders): {'; '.join(parts)}."

    def saved(self, problems: list[str], goal: str, ratio: float) -> str:
        """Say what one setting costs against the best of all grids on each problem."""
        best = {problem: min(cost for _, cost in self.order(problem, goal, ratio)) for problem in problems}
        mine = {problem: self.cost(problem, [LAZY], goal, ratio) for problem in best if math.isfinite(best[problem])}
        met = sum(cost <= BAR * best[problem] for problem, cost in mine.items())
        parts = [
            f"{self.titles[problem]} {written(cost)} of {count(best[problem])}{share(cost, best[problem])}"
            for problem, cost in mine.items()
        ]
        return (
            f"{self.titles[LAZY]}, one setting, {goal} at C_A = {ratio:g}, against the best of all grids if any arrives: "
            f"{'; '.join(parts)}. The bar of {BAR:g} is met on {met} of {len(mine)}."
        )


def regime_map(cells: list[dict]) -> OwnChart:
    """Return who is the cheapest in each cell, the cost in it, and a ring where the theorem's orders name RG-SAGA."""
    x = {"field": "C_A", "type": "ordinal", "title": "C_A / C_R", "axis": {"labelAngle": 0}}
    y = {"field": "problem", "type": "nominal", "title": None, "sort": None}
    colour = {"field": "cheapest", "type": "nominal", "title": None, "legend": {"orient": "top", "columns": 5}}
    layers = [
        {"mark": {"type": "rect", "opacity": 0.55}, "encoding": {"color": {**colour, "scale": {"scheme": "tableau10"}}}},
        {"mark": {"type": "text", "dx": -6}, "encoding": {"text": {"field": "cost"}}},
        {
            "transform": [{"filter": "datum['RG-SAGA by the theorem']"}],
            "mark": {"type": "point", "shape": "circle", "filled": False, "size": 25, "xOffset": 20, "color": "#333"},
        },
    ]
    chart = {
        "$schema": SCHEMA,
        "data": {"values": cells},
        "facet": {
            "row": {"field": "budget", "type": "nominal", "title": None, "sort": list(dict.fromkeys(c["budget"] for c in cells))},
            "column": {"field": "goal", "type": "nominal", "title": None, "sort": list(dict.fromkeys(c["goal"] for c in cells))},
        },
        "spec": {"width": 300, "height": {"step": 20}, "encoding": {"x": x, "y": y}, "layer": layers},
    }
    caption = (
        "The cheapest method of the papers, each at its best setting, and its cost. A ring: by the orders of table 1 RG-SAGA "
        "costs no more than any rival, with constants that are known for quadratics. Lazy DANE is left out."
    )
    return OwnChart("regime-map", "Regime map", caption, chart)


def share(cost: float, best: float) -> str:
    """Write which share of the best a cost is, where it is known."""
    return f" ({number(cost / best)})" if math.isfinite(cost) else ""


def written(cost: float) -> str:
    """Write a cost, or that it is more than was played."""
    return count(cost) if math.isfinite(cost) else "more than was played"


def crossing(declared: dict, title: str) -> float:
    """Return the C_A >= C_R from which RG-SAGA costs no more by the orders of table 1, for small epsilon.

    Args:
        declared: The tables of a problem.
        title: The rival's name in table 1.
    """
    spec = LogSumSpec(**{key: value for key, value in declared["problem"].items() if key != "kind"})
    constants, rows = exact(spec.build(), 0), {row.method: row for row in TABLE}
    prices = np.geomspace(1, 1e4, 401)
    cases = [Case(constants, spec.clients, declared["sampler"]["size"], 1.0, 1e-9, Selection(price)) for price in prices]
    mine, other = ([rows[name].price(case) for case in cases] for name in ("I-CGM-RG-SAGA", title))
    return float(prices[np.argmax(np.array(mine) <= np.array(other))])
