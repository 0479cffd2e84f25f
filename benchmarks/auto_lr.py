"""Exchanges that `lr = "auto"` takes, over those of the best of a grid, on twelve problems that had no part in its choice."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import turnout as t
from benchmarks.timing import SEED, Line
from turnout.data import Dataset, Split, load, splits

GRID = [2.0**k for k in range(-6, 7)]
"""The lr of the tuned runs."""

SEEDS = range(3)
ROUNDS, ROWS, IMAGES = 200, 3000, 1000
TIMES, ENOUGH = 2.0, 10

SHARE, LOSS = 0.05, 0.2
"""The target: this share of the first f - f*, or this loss of a network, whose f* is near 0."""

Maker = Callable[[Any, Split], t.Problem]


class Case(NamedTuple):
    """A problem, and how its clients train.

    Args:
        name: What it is, in words.
        data: Name of the data set.
        normalize: Which scaling its features have.
        split: How rows become clients.
        make: The problem of the data and the split.
        cohort: Clients of a round.
        work: Local work: steps, or batch and epochs.
        share: Share of the first f - f* that is the target.
    """

    name: str
    data: str
    normalize: str
    split: Any
    make: Maker
    cohort: int
    work: dict[str, int]
    share: float = SHARE


def logistic(mu: float) -> Maker:
    return lambda data, split: t.Logistic.of(data, split, mu)


def ridge(mu: float) -> Maker:
    return lambda data, split: t.Ridge.of(data, split, mu, split.sizes)


def multinomial(mu: float) -> Maker:
    return lambda data, split: t.Multinomial.of(data, split, mu)


def network(hidden: int, activation: str) -> Maker:
    return lambda data, split: t.Network.of(data, split, hidden, activation=activation)


def clients(kind: str, count: int = 30, **options) -> Any:
    return getattr(splits, kind)(clients=count, seed=SEED, **options)


def kmeans(clusters: int, each: int) -> Any:
    return splits.KMeansSplit(clusters=clusters, clients_per_cluster=each, seed=SEED)


CHOSEN_ON = (
    Case("a6a, clusters", "a6a", "none", kmeans(5, 8), logistic(1e-3), 8, {"steps": 5}),
    Case("digits, sorted", "digits", "rows", splits.SortedSplit(clients=20, seed=SEED), multinomial(1e-3), 10, {"steps": 1}),
    Case("network on digits, Dirichlet", "digits", "columns", clients("DirichletSplit", 20, concentration=0.3),
         network(32, "tanh"), 5, {"batch": 16, "epochs": 1}),
    Case("least squares on breast cancer, alike", "breast_cancer", "columns", clients("IidSplit", 10), ridge(1e-2), 5,
         {"steps": 3}),
)  # fmt: skip
"""The problems on which the method was chosen among five, and its constants were set."""

JUDGED_ON = (
    Case("a9a, sorted", "a9a", "none", splits.SortedSplit(clients=30, share=0.7, seed=SEED), logistic(1e-4), 10, {"steps": 5}),
    Case("a9a, Dirichlet", "a9a", "none", clients("DirichletSplit", concentration=0.5), logistic(1e-4), 10, {"steps": 1}),
    Case("w8a, clusters", "w8a", "none", kmeans(6, 5), logistic(1e-3), 10, {"steps": 10}),
    Case("mushrooms, clusters", "mushrooms", "none", kmeans(5, 6), logistic(1e-3), 6, {"steps": 5}),
    Case("ijcnn1, batches", "ijcnn1", "none", clients("DirichletSplit", concentration=1.0), logistic(1e-3), 10,
         {"steps": 10, "batch": 32}),
    Case("least squares on a6a, alike", "a6a", "none", clients("IidSplit"), ridge(1e-3), 10, {"steps": 1}),
    Case("least squares on mushrooms, sizes differ", "mushrooms", "none", clients("PowerSplit", exponent=1.0), ridge(1e-2), 10,
         {"steps": 3}),
    Case("digits, Dirichlet", "digits", "rows", clients("DirichletSplit", concentration=0.3), multinomial(1e-3), 6, {"steps": 5}),
    Case("synthetic, its own clients", "synthetic", "none", splits.NaturalSplit(clients=30, seed=SEED), multinomial(1e-3), 10,
         {"batch": 32, "epochs": 1}, 0.2),  # No lr of the grid gets to 0.05.
    Case("network on digits, two classes each", "digits", "columns", clients("TwoClassSplit", 20), network(32, "tanh"), 10,
         {"batch": 16, "epochs": 1}),
    Case("network on digits, alike", "digits", "rows", clients("IidSplit", 20), network(64, "relu"), 5, {"steps": 10}),
    Case("network on MNIST, Dirichlet", "mnist", "none", clients("DirichletSplit", 20, concentration=0.5), network(32, "relu"),
         10, {"batch": 32, "epochs": 1}),
)  # fmt: skip
"""The problems that judge it."""


class Outcome(NamedTuple):
    """What the tuned runs and the one without a number took.

    Args:
        auto: Median over the seeds of the exchanges of `lr = "auto"`; infinite where the target is missed.
        tuned: The least such median of the grid.
        lr: The lr that it belongs to.
        inside: Whether that lr is within the grid, not at an end.
        diverged: Seeds of `lr = "auto"` that end above the first value or at none.
        seconds: How long it took.
    """

    auto: float
    tuned: float
    lr: float
    inside: bool
    diverged: int
    seconds: float


def measure() -> list[Line]:
    """Return the ratio on each problem, on how many it is at most 2, and how many runs diverged."""
    chosen, judged = [outcome(case) for case in CHOSEN_ON], [outcome(case) for case in JUDGED_ON]
    outcomes = [*chosen, *judged]
    lines = [line(case, one, judged=False) for case, one in zip(CHOSEN_ON, chosen, strict=True)]
    lines += [line(case, one, judged=True) for case, one in zip(JUDGED_ON, judged, strict=True)]
    within = sum(one.auto <= TIMES * one.tuned for one in judged)
    diverged, inside = sum(one.diverged for one in outcomes), all(one.inside for one in outcomes)
    return [
        *lines,
        Line("auto-lr", f"problems of {len(judged)} with at most {TIMES:g} times the exchanges", within, ENOUGH, True, unit=""),
        Line("auto-lr", "runs without a number that diverged", diverged, 0, unit="", note=f"of {len(outcomes) * len(SEEDS)}"),
        Line("auto-lr", "best lr within the grid", float(inside), 1, True, unit=""),
    ]


def line(case: Case, one: Outcome, *, judged: bool) -> Line:
    """Return the line of a problem; those on which the method was chosen say so."""
    note = f"{one.auto:g} against {one.tuned:g} exchanges with lr = {one.lr:g}{'' if judged else '; the method was chosen here'}"
    settings = {"cohort": case.cohort, "seeds": [*SEEDS], "rounds": ROUNDS, **case.work}
    return Line("auto-lr", case.name, one.auto / one.tuned, note=note, settings=settings, timings={"all": [one.seconds]})


def outcome(case: Case) -> Outcome:
    """Play the grid and the run without a number, with all seeds."""
    began = time.perf_counter()
    problem = problem_of(case)
    metrics = ("value",) if "network" in case.name else ("value", "gap")
    first = t.run(t.FedAvg(t.Full(), lr=1.0), problem, rounds=0, metrics=metrics).frame.row(0, named=True)
    below = LOSS if "network" in case.name else first["value"] - (1 - case.share) * first["gap"]
    options = {"rounds": ROUNDS, "seeds": SEEDS, "metrics": ("value",), "target": t.Target("value", below, stop=True)}
    tuned = t.sweep(t.FedAvg(t.Nice(case.cohort), lr=1.0, **case.work), problem, {"lr": GRID}, **options).costs()
    auto = t.sweep(t.FedAvg(t.Nice(case.cohort), "auto", **case.work), problem, {}, **options)
    lr, cost = tuned["lr"][0], tuned["cost"][0]
    ends = np.array([trace.frame["value"][-1] for trace in auto.traces])
    # A tie with an end of the grid is not at the end.
    best = tuned.filter(tuned["cost"] == cost)["lr"]
    inside = any(GRID[0] < one < GRID[-1] for one in best)
    diverged = int(np.sum(~(ends <= first["value"])))
    return Outcome(auto.costs()["cost"][0], cost, lr, inside, diverged, time.perf_counter() - began)


def problem_of(case: Case) -> t.Problem:
    """Return the problem, on `ROWS` random rows of its data where it has more, or on `IMAGES` where they are images."""
    data = load(case.data)
    if case.normalize != "none":
        data = data.normalized(case.normalize)
    most = IMAGES if data.images else ROWS
    if data.rows > most and not isinstance(case.split, splits.NaturalSplit):
        rows = np.sort(np.random.default_rng(SEED).permutation(data.rows)[:most])
        data = Dataset(data.name, data.features[rows], data.labels[rows])
    return case.make(data, case.split.split(data))
