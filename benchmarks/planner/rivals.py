"""Rivals of the planner on the same candidates: random search, Hyperband and Optuna's TPE, in the same CPU seconds.

They read the yardstick's table instead of playing, and pay for each round that they would have played and for each program
that they would have compiled. A run stops where it costs more than what it has to beat, which the published forms do not know; it
makes random search and TPE stronger.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.planner.problems import ROUNDS
from benchmarks.planner.yardstick import SEEDS, Yardstick
from turnout.accounting.prices import Price
from turnout.planner.race import SLACK

FINALISTS, RESERVED = 4, 0.2
"""Candidates that meet on the further seeds, and the share of the seconds that is left for that."""

ETA, SWEEPS = 3, 50
"""Hyperband keeps one of so many candidates from rung to rung, and plays all brackets so many times at most."""


ASKS = 200
"""Candidates that TPE asks for at most: it repeats itself in the end, and takes longer for each than the one before."""


class Spent(Exception):
    """Raised where the seconds are spent."""


@dataclass
class Player:
    """Plays candidates from a table, and counts CPU seconds.

    Args:
        table: The table.
        price: The price.
        budget: The most CPU seconds.
    """

    table: Yardstick
    price: Price
    budget: float
    spent: float = 0.0
    costs: dict[int, float] = field(default_factory=dict)
    incumbents: list[tuple[float, int]] = field(default_factory=list)
    _done: dict[tuple[int, int], int] = field(default_factory=dict)
    _compiled: set[int] = field(default_factory=set)

    @property
    def least(self) -> float:
        """The least cost on the first seed so far."""
        return min(self.costs.values(), default=math.inf)

    def play(self, candidate: int, *, seed: int = 0, cap: float = math.inf, rounds: int = ROUNDS) -> tuple[float, float]:
        """Play a run until the target, a cost of `cap` or a number of rounds; it goes on where it was.

        Returns:
            The cost of the target, infinite where it is not reached, and the metric at the end.
        """
        curve = self.table.curves.get((candidate, seed))
        if curve is None:
            return math.inf, math.inf
        cost = curve.cost(self.price)
        last = int(min(len(cost) - 1, rounds, np.searchsorted(cost, cap)))
        before = self._done.get((candidate, seed), 0)
        self.spent += self._compiling(candidate) + max(0, last - before) * float(self.table.compute.round[candidate])
        self._done[candidate, seed] = max(last, before)
        arrived = float(cost[last]) if curve.met and last == len(cost) - 1 else math.inf
        if seed == 0 and arrived < math.inf:
            if arrived < self.least:
                self.incumbents.append((self.spent, candidate))
            self.costs[candidate] = arrived
        if self.spent > (1 - RESERVED) * self.budget and seed == 0:
            raise Spent
        return arrived, float(np.nan_to_num(curve.metric[last], nan=math.inf))

    def _compiling(self, candidate: int) -> float:
        """Return the seconds of compiling the program of a candidate, the first time that it is needed."""
        structure = int(self.table.compute.structure[candidate])
        if structure in self._compiled:
            return 0.0
        self._compiled.add(structure)
        return float(self.table.compute.compiling[candidate])

    def choice(self) -> int | None:
        """Return the best of the finalists by their median cost over all seeds; None where no candidate arrived."""
        finalists = sorted(self.costs, key=lambda one: self.costs[one])[:FINALISTS]
        costs = {one: [self.costs[one], *(self.play(one, seed=seed)[0] for seed in SEEDS[1:])] for one in finalists}
        return min(finalists, key=lambda one: (float(np.median(costs[one])), float(np.mean(costs[one]))), default=None)


def random_search(player: Player, rng: np.random.Generator) -> None:
    """Play candidates in random order."""
    for candidate in rng.permutation(len(player.table.candidates)):
        player.play(int(candidate), cap=SLACK * player.least)


def hyperband(player: Player, rng: np.random.Generator) -> None:
    """Play brackets of successive halving, from many candidates for few rounds to few for all (Li et al. 2018, algorithm 1)."""
    deepest, candidates = int(math.log(ROUNDS, ETA)), len(player.table.candidates)
    for _ in range(SWEEPS):
        for bracket in range(deepest, -1, -1):
            count = math.ceil((deepest + 1) / (bracket + 1) * ETA**bracket)
            field = [int(one) for one in rng.choice(candidates, min(count, candidates), replace=False)]
            for rung in range(bracket + 1):
                rounds = max(1, round(ROUNDS * ETA ** (rung - bracket)))
                results = {one: player.play(one, rounds=rounds) for one in field}
                field = sorted(field, key=lambda one: results[one])[: max(1, len(field) // ETA)]


def tpe(player: Player, rng: np.random.Generator) -> None:
    """Play what Optuna's tree-structured Parzen estimator asks for: a family, then a place on each axis of its grid."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    grids, numbers = grids_of(player.table)
    sampler = optuna.samplers.TPESampler(seed=int(rng.integers(2**31)))
    study, worst = optuna.create_study(sampler=sampler), 0.0
    for _ in range(ASKS):
        trial = study.ask()
        family = trial.suggest_categorical("family", list(grids))
        place = tuple(trial.suggest_int(f"{family}.{key}", 0, len(values) - 1) for key, values in grids[family].items())
        candidate = numbers.get((family, place))
        cost = math.inf if candidate is None else player.play(candidate, cap=SLACK * player.least)[0]
        worst = max(worst, cost if math.isfinite(cost) else 0.0)
        # What is dearer than the cap, or does not arrive, is worse than all that arrived.
        study.tell(trial, math.log(cost) if 0 < cost < math.inf else math.log(worst or 1.0) + 1.0)


def grids_of(table: Yardstick) -> tuple[dict[str, dict[str, list]], dict[tuple[str, tuple[int, ...]], int]]:
    """Return the values of each key of each family, and the number of the candidate at each place of its grid."""
    settings = [(row["family"], json.loads(row["values"])) for row in table.candidates.iter_rows(named=True)]
    grids: dict[str, dict[str, list]] = {}
    for family, values in settings:
        for key, value in values.items():
            known = grids.setdefault(family, {}).setdefault(key, [])
            known += [] if value in known else [value]
    grids = {
        family: {key: sorted(own) if all(isinstance(one, int | float) for one in own) else own for key, own in axes.items()}
        for family, axes in grids.items()
    }
    return grids, {(f, tuple(grids[f][key].index(values[key]) for key in grids[f])): k for k, (f, values) in enumerate(settings)}


RIVALS: dict[str, Callable[[Player, np.random.Generator], None]] = {
    "random search": random_search,
    "Hyperband": hyperband,
    "TPE": tpe,
}


def searched(name: str, table: Yardstick, price: Price, budget: float, seed: int) -> tuple[int | None, Player]:
    """Return what a rival chooses, and its player, which has its incumbents."""
    player = Player(table, price, budget)
    try:
        RIVALS[name](player, np.random.default_rng(seed))
    except Spent:
        pass
    return player.choice(), player
