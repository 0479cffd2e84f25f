"""The planner against the yardstick: every candidate of every family, played to its end."""

import math
import time

import jax
import numpy as np
import polars as pl

from benchmarks.timing import Line
from turnout.accounting.prices import Exchanges, LinearPrice, Price, Selection
from turnout.planner.candidates import Contender
from turnout.planner.planner import FRESH, Planner
from turnout.planner.task import Limits, Task, task_of
from turnout.studies.cases import Cases

PRICES: dict[str, Price] = {
    "exchanges": Exchanges(),
    "contacts": LinearPrice(contacts=1.0),
    "mixed": LinearPrice(exchanges=1.0, contacts=0.1, queries_slowest=0.01),
    "selections": Selection(arbitrary=5.0),
}

SEEDS, FRESH_SEEDS, ROUNDS = range(5), range(FRESH, FRESH + 11), 200
"""Seeds on which the yardstick chooses, seeds on which all are reported, and rounds of a run."""

KMEANS = {"kind": "kmeans", "clusters": 5, "clients_per_cluster": 4}
DIRICHLET = {"kind": "dirichlet", "clients": 20, "concentration": 0.3, "seed": 3}
SORTED = {"kind": "sorted", "clients": 20}
IID = {"kind": "iid", "clients": 20, "seed": 3}

CANCER = {"kind": "logistic", "data": "breast_cancer", "mu": 0.1, "normalize": "columns"}
DIGITS = {"kind": "multinomial", "data": "digits", "mu": 0.01, "normalize": "rows"}
WINE = {"kind": "multinomial", "data": "wine", "mu": 0.05, "normalize": "columns"}
DIABETES = {"kind": "ridge", "data": "diabetes", "mu": 0.05, "normalize": "columns"}
NETWORK = {"kind": "network", "data": "wine", "hidden": 8, "mu": 0.001, "normalize": "columns"}


def case(problem: dict, split: dict, metric: str, below: float) -> dict:
    """Return the tables of a problem, its split and its target."""
    return {"problem": problem, "split": split, "target": {"metric": metric, "below": below}, "run": {"rounds": ROUNDS}}


PROBLEMS = {
    "logistic, k-means": case(CANCER, KMEANS, "distance", 0.005),
    "logistic, Dirichlet": case(CANCER, DIRICHLET, "distance", 0.005),
    "logistic, sorted": case(CANCER, SORTED, "distance", 0.005),
    "multinomial, Dirichlet": case(DIGITS, DIRICHLET, "gap", 0.01),
    "multinomial, i.i.d.": case(WINE, IID, "distance", 0.01),
    "multinomial, sorted": case(WINE, SORTED, "distance", 0.01),
    "ridge, i.i.d.": case(DIABETES, IID, "gap", 1.0),
    "ridge, sorted": case(DIABETES, SORTED, "gap", 1.0),
    "not convex, k-means": case({**CANCER, "alpha": 0.05, "mu": 0.0}, KMEANS, "gradient", 0.003),
    "not convex, sorted": case({**CANCER, "alpha": 0.05, "mu": 0.0}, SORTED, "gradient", 0.003),
    "network, i.i.d.": case(NETWORK, IID, "value", 0.1),
    "network, Dirichlet": case(NETWORK, {**DIRICHLET, "concentration": 1.0}, "value", 0.1),
}


def task(name: str, price: Price) -> Task:
    """Return the planning task of a problem at a price."""
    return task_of(PROBLEMS[name], (price,), Limits(), name)


class Yardstick:
    """Every candidate of every family on a problem, played to its end with all seeds that choose.

    Args:
        name: Name of the problem.
    """

    def __init__(self, name: str):
        began = time.process_time()
        self.planner = Planner(task(name, Exchanges()), None, Cases(), lambda *_: None)
        self.contenders: list[Contender] = []
        self.ends: list[list[pl.DataFrame | None]] = []
        self.rounds = 0
        for family in self.planner.families:
            for place in family.structures:
                for one in family.contenders(place):
                    self.contenders.append(one)
                    self.ends.append([self._end(one, seed) for seed in SEEDS])
                family.structures[place].forget()
        self.seconds = time.process_time() - began

    def _end(self, one: Contender, seed: int) -> pl.DataFrame | None:
        trial = one.trial(seed)
        trial.play(Exchanges(), math.inf)
        self.rounds += int(trial.frame["round"][-1]) if trial.frame.height else 0
        return trial.frame[-1:] if trial.met else None

    def costs(self, price: Price) -> np.ndarray:
        """Return the cost of each candidate with each seed [candidates, seeds], infinite where it does not arrive."""
        return np.array([[math.inf if rows is None else _cost(price, rows) for rows in own] for own in self.ends])

    def best(self, price: Price) -> tuple[Contender, float]:
        """Return the candidate with the least median cost, of several that with the least mean, and its cost on fresh seeds."""
        costs = self.costs(price)
        order = np.lexsort((np.where(np.isfinite(costs), costs, 1e300).mean(1), np.sort(costs, 1)[:, costs.shape[1] // 2]))
        one = self.contenders[order[0]]
        return one, fresh_cost(one, price)


def fresh_cost(one: Contender, price: Price) -> float:
    """Return the median cost of a candidate over the fresh seeds."""
    costs = []
    for seed in FRESH_SEEDS:
        trial = one.trial(seed)
        trial.play(price, math.inf)
        costs.append(_cost(price, trial.frame[-1:]) if trial.met else math.inf)
    return float(np.sort(costs)[len(costs) // 2])


def _cost(price: Price, rows: pl.DataFrame) -> float:
    return float(np.asarray(price.cost(rows), float)[0])


def compare(name: str) -> list[dict]:
    """Return a row for each price: the cost of the plan and of the yardstick, and what both took."""
    yardstick = Yardstick(name)
    rows = []
    for label, price in PRICES.items():
        best, cost = yardstick.best(price)
        jax.clear_caches()
        began = time.process_time()
        plan = Planner(task(name, price), None, Cases(), lambda *_: None).plan(envelope=False)
        seconds = time.process_time() - began
        rows.append(
            {
                "problem": name,
                "price": label,
                "plan": plan.cost,
                "yardstick": cost,
                "ratio": plan.cost / cost,
                "seconds": seconds / yardstick.seconds,
                "rounds": plan.spent.rounds / yardstick.rounds,
                "planned": f"{plan.ranking['family'][0]}: {plan.ranking['setting'][0]}",
                "best": f"{best.setting.method}: {best.setting.label}",
                "yardstick_seconds": yardstick.seconds,
            }
        )
        print(rows[-1], flush=True)
    return rows


def measure() -> list[Line]:
    """Return how the plans of all problems at all prices compare with the yardstick."""
    rows = [row for name in PROBLEMS for row in compare(name)]
    ratios, seconds, rounds = (np.array([row[name] for row in rows]) for name in ("ratio", "seconds", "rounds"))
    note = "; ".join(f"{row['problem']}, {row['price']}: {row['ratio']:.2f}" for row in rows if row["ratio"] > 1)
    settings = {"cases": rows}
    return [
        Line(
            "planner",
            "cases within 10 % of the yardstick",
            float((ratios <= 1.1).mean()),
            0.8,
            at_least=True,
            note=note,
            settings=settings,
        ),
        Line("planner", "largest cost over that of the yardstick", float(ratios.max()), 1.3),
        Line("planner", "CPU seconds over those of the yardstick, median", float(np.median(seconds)), 0.2),
        Line("planner", "rounds over those of the yardstick, median", float(np.median(rounds)), 0.2),
    ]
