"""Problems that chose neither the planner nor `auto`, and the cheapest candidate of the full grid on each at each price."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import jax
import numpy as np

import turnout as t
from benchmarks.planner.problems import DIABETES, DIRICHLET, IID, KMEANS, NETWORK, PRICES, SORTED, WINE, case
from benchmarks.planner.yardstick import FRESH_SEEDS, SEEDS, costs_of, end_of
from turnout.accounting.prices import Exchanges
from turnout.data import Dataset, Source, load
from turnout.planner.candidates import Contender
from turnout.planner.planner import Planner
from turnout.planner.task import Limits, Task, task_of
from turnout.studies.cases import Cases
from turnout.studies.statistics import median

SHARES = {"distance": 0.01, "gap": 0.01, "gradient": 0.05, "value": 0.3}
"""The share of a metric's first value that is the target."""

SMALL = 1e-300
"""A target that no run reaches."""

SOONEST = "sketched-newton-shuffled"
"""The family that is played first: it soon gives a cost above which others need not be played."""


@t.record
class RandomRows(Source):
    """Random rows of the data set `name`, always the same for the same `seed`."""

    name: str
    rows: int = 1000
    seed: int = 0

    def load(self, folder=None) -> Dataset:
        """Return the rows."""
        data = load(self.name, folder)
        kept = np.sort(np.random.default_rng(self.seed).permutation(data.rows)[: self.rows])
        return replace(data, features=data.features[kept], labels=data.labels[kept], ids=None)


def _rows(kind: str, name: str, seed: int = 0, **settings: float) -> dict:
    return {"kind": kind, "data": {"kind": "benchmarks.planner.judging:RandomRows", "name": name, "seed": seed}, **settings}


MANY = {"clients": 50}

FORMER = {
    "logistic, a9a, sorted": (_rows("logistic", "a9a", mu=0.01), SORTED | MANY, "distance"),
    "logistic, mushrooms, k-means": (_rows("logistic", "mushrooms", mu=0.01), KMEANS, "distance"),
    "logistic, ijcnn1, Dirichlet": (_rows("logistic", "ijcnn1", mu=0.01), DIRICHLET, "distance"),
    "logistic, w8a, i.i.d.": (_rows("logistic", "w8a", mu=0.01), IID, "distance"),
    "multinomial, iris, Dirichlet": ({"kind": "multinomial", "data": "iris", "mu": 0.01}, DIRICHLET, "distance"),
    "multinomial, digits, sorted": (_rows("multinomial", "digits", mu=0.01), SORTED, "distance"),
    "ridge, ijcnn1, sorted": (_rows("ridge", "ijcnn1", mu=0.01), SORTED, "gap"),
    "ridge, mushrooms, k-means": (_rows("ridge", "mushrooms", mu=0.01), KMEANS, "gap"),
    "not convex, a9a, Dirichlet": (_rows("logistic", "a9a", mu=0.0, alpha=0.05), DIRICHLET | MANY, "gradient"),
    "not convex, mushrooms, sorted": (_rows("logistic", "mushrooms", mu=0.0, alpha=0.05), SORTED, "gradient"),
    "network, digits, i.i.d.": (_rows("network", "digits", hidden=16, mu=0.001), IID, "value"),
    "network, iris, Dirichlet": ({"kind": "network", "data": "iris", "hidden": 8, "mu": 0.001}, DIRICHLET, "value"),
    "logistic, a6a, i.i.d.": (_rows("logistic", "a6a", mu=0.1), IID | {"clients": 30}, "distance"),
    "logistic, w8a, sorted": (_rows("logistic", "w8a", mu=0.1), SORTED, "distance"),
    "logistic, mushrooms, Dirichlet": (_rows("logistic", "mushrooms", mu=0.001), DIRICHLET, "distance"),
    "logistic, ijcnn1, k-means": (_rows("logistic", "ijcnn1", mu=0.1), KMEANS, "distance"),
    "multinomial, wine, sorted": ({**WINE, "mu": 0.005}, SORTED, "distance"),
    "multinomial, iris, k-means": ({"kind": "multinomial", "data": "iris", "mu": 0.1}, KMEANS, "distance"),
    "ridge, a9a, Dirichlet": (_rows("ridge", "a9a", mu=0.1), DIRICHLET, "gap"),
    "ridge, w8a, i.i.d.": (_rows("ridge", "w8a", mu=0.01), IID, "gap"),
    "not convex, ijcnn1, sorted": (_rows("logistic", "ijcnn1", mu=0.0, alpha=0.1), SORTED, "gradient"),
    "not convex, w8a, k-means": (_rows("logistic", "w8a", mu=0.0, alpha=0.05), KMEANS, "gradient"),
    "network, breast cancer, Dirichlet": ({**NETWORK, "data": "breast_cancer"}, DIRICHLET, "value"),
    "network, digits, sorted": (_rows("network", "digits", hidden=16, mu=0.001), SORTED | MANY, "value"),
}
"""Problems, splits and metrics on which former versions of `auto` failed, and which then helped to choose it."""

JUDGED = {
    "logistic, a9a, k-means": (_rows("logistic", "a9a", 1, mu=0.1), KMEANS, "distance"),
    "logistic, w8a, Dirichlet": (_rows("logistic", "w8a", 1, mu=0.01), DIRICHLET | MANY, "distance"),
    "logistic, mushrooms, i.i.d.": (_rows("logistic", "mushrooms", 1, mu=0.1), IID, "distance"),
    "logistic, ijcnn1, sorted": (_rows("logistic", "ijcnn1", 1, mu=0.01), SORTED | {"clients": 30}, "distance"),
    "multinomial, wine, Dirichlet": ({**WINE, "mu": 0.01}, DIRICHLET, "distance"),
    "multinomial, iris, sorted": ({"kind": "multinomial", "data": "iris", "mu": 0.05}, SORTED, "distance"),
    "ridge, a6a, sorted": (_rows("ridge", "a6a", 1, mu=0.01), SORTED, "gap"),
    "ridge, diabetes, k-means": ({**DIABETES, "mu": 0.1}, KMEANS, "gap"),
    "not convex, a6a, k-means": (_rows("logistic", "a6a", 1, mu=0.0, alpha=0.1), KMEANS, "gradient"),
    "not convex, ijcnn1, i.i.d.": (_rows("logistic", "ijcnn1", 1, mu=0.0, alpha=0.05), IID, "gradient"),
    "network, iris, sorted": ({"kind": "network", "data": "iris", "hidden": 8, "mu": 0.001}, SORTED, "value"),
    "network, breast cancer, k-means": ({**NETWORK, "data": "breast_cancer"}, KMEANS, "value"),
}
"""Those that judge it, and chose nothing."""


@cache
def judged(name: str) -> Task:
    """Return the planning task of a problem, whose target is a share of the metric's first value."""
    problem, split, metric = (FORMER | JUDGED)[name]
    start = task_of(case(problem, split, metric, SMALL), (Exchanges(),), Limits(allow=["fedavg"]), name)
    family, *_ = Planner(start, None, Cases(), lambda *_: None).families
    trial = family.contenders(family.centre())[0].trial(0)
    trial.play(Exchanges(), 1.0)
    return task_of(case(problem, split, metric, SHARES[metric] * trial.frame[metric][0]), (Exchanges(),), Limits(), name)


class Best(NamedTuple):
    """The cheapest candidate at a price on the seeds that choose, and its costs on fresh ones [seeds]."""

    family: str
    setting: str
    costs: np.ndarray


def best_of_grid(name: str) -> dict[str, Best]:
    """Play the candidates of all families, and return the cheapest at each price."""
    planner = Planner(judged(name), None, Cases(), lambda *_: None)
    found = {}
    for label, one in cheapest(_contenders(planner, name)).items():
        if one is None:
            raise AssertionError(f"{name}: no candidate reaches the target")
        fresh = costs_of([end_of(one.trial(seed)) for seed in FRESH_SEEDS], PRICES[label])
        found[label] = Best(one.setting.method, one.setting.label, fresh)
    return found


def cheapest(contenders: Iterable[Contender]) -> dict[str, Contender | None]:
    """Return the candidate with the least median cost at each price, the first of equal ones; None where none arrives.

    Each is played as long as it may still be the cheapest at some price, which changes nothing.
    """
    best: dict[str, tuple[float, Contender | None]] = dict.fromkeys(PRICES, (math.inf, None))
    for one in contenders:
        for label, cost in _costs(one, {label: cap for label, (cap, _) in best.items()}).items():
            if cost < best[label][0]:
                best[label] = cost, one
    return {label: one for label, (_, one) in best.items()}


def _contenders(planner: Planner, name: str) -> Iterator[Contender]:
    """Yield the candidates of all families, and free what each structure holds after it."""
    families = sorted(planner.families, key=lambda family: family.name != SOONEST)
    for number, family in enumerate(families):
        for place, structure in family.structures.items():
            yield from family.contenders(place)
            structure.forget()
            planner.store.trials.clear()
        jax.clear_caches()
        print(f"{name}: {family.name}, {number + 1} of {len(families)} families", flush=True)


def _costs(one: Contender, caps: dict[str, float]) -> dict[str, float]:
    """Return the median cost at each price, infinite where it is certain that it is above the cap.

    A run is played until it has cost the caps of all prices. Where most seeds have not arrived then, the others change nothing.
    """
    costs = {label: [] for label in caps}
    for seed in SEEDS:
        for label, cap in caps.items():
            costs[label].append(one.trial(seed).play(PRICES[label], cap).cost)
        if all(np.isinf(known).sum() > len(SEEDS) // 2 for known in costs.values()):
            return dict.fromkeys(caps, math.inf)
    return {label: float(median(np.array(known))) for label, known in costs.items()}
