"""The yardstick: every candidate of every family, played to its end, once for all prices."""

import json
import math
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import polars as pl

from benchmarks.planner.problems import task
from turnout.accounting.ledger import EVENTS
from turnout.accounting.prices import Exchanges, Price
from turnout.planner.candidates import Contender
from turnout.planner.planner import FRESH, Planner
from turnout.planner.trials import Trial
from turnout.studies.cases import Cases
from turnout.studies.files import file_name
from turnout.studies.statistics import median

SEEDS, FRESH_SEEDS, MANY_SEEDS = range(5), range(FRESH, FRESH + 11), range(FRESH, FRESH + 101)
"""Seeds on which candidates are chosen, those of the planner's race, and seeds on which costs are reported, many where
a target takes a few exchanges, so that a median over eleven is one of two numbers by luck."""


@dataclass(frozen=True)
class Curve:
    """A run of a candidate, row by row.

    Args:
        events: Cumulative events, by name: arrays [rows].
        metric: The target's metric [rows].
        met: Whether the last row reaches the target.
    """

    events: dict[str, np.ndarray]
    metric: np.ndarray
    met: bool

    def cost(self, price: Price) -> np.ndarray:
        """Return what was spent up to each row [rows]."""
        return np.broadcast_to(np.asarray(price.cost(self.events), float), self.metric.shape)


class Compute(NamedTuple):
    """What candidates take, arrays [candidates].

    Args:
        structure: The number of the program that a candidate shares with others.
        compiling: CPU seconds until its first round.
        round: CPU seconds of a round.
    """

    structure: np.ndarray
    compiling: np.ndarray
    round: np.ndarray


class Yardstick:
    """All candidates of a problem, in a table that is played once and kept.

    Args:
        name: Name of the problem.
        folder: Where tables are kept.
    """

    def __init__(self, name: str, folder: Path):
        self.name = name
        # Its runs are long, so that programs which compile quickly would cost it more.
        self.planner = Planner(task(name, Exchanges()), None, Cases(), lambda *_: None, quick=False)
        self._families = {family.name: family for family in self.planner.families}
        self._fresh: dict[tuple[int, int], pl.DataFrame | None] = {}
        files = [folder / f"{file_name(name)}.{part}.parquet" for part in ("candidates", "rows")]
        if not all(file.exists() for file in files):
            folder.mkdir(parents=True, exist_ok=True)
            for table, file in zip(self._played(), files, strict=True):
                table.write_parquet(file)
        self.candidates, self._rows = map(pl.read_parquet, files)
        keys = zip(self.candidates["family"], self.candidates["setting"], strict=True)
        self._numbers = {key: number for number, key in enumerate(keys)}

    @property
    def metric(self) -> str:
        """The target's metric."""
        return self.planner.task.declaration.goals["target"].metric

    @property
    def seconds(self) -> float:
        """CPU seconds that it took."""
        return float(self.candidates["first"].sum() + self.candidates["rest"].sum())

    @property
    def rounds(self) -> int:
        """Rounds that were played."""
        return int(self._rows.group_by("candidate", "seed").agg(pl.col("round").max())["round"].sum())

    @cached_property
    def curves(self) -> dict[tuple[int, int], Curve]:
        """The run of each candidate with each seed."""
        return {
            key: Curve({event: rows[event].to_numpy() for event in EVENTS}, rows["metric"].to_numpy(), bool(rows["met"][0]))
            for key, rows in self._rows.partition_by("candidate", "seed", as_dict=True, maintain_order=True).items()
        }

    @cached_property
    def compute(self) -> Compute:
        """What candidates take, by the seconds of the first run of each program and of all others."""
        runs = self._rows.group_by("candidate", "seed").agg(pl.col("round").max())
        runs = runs.group_by("candidate").agg(pl.col("round").sum()).with_columns(pl.col("candidate").cast(pl.Int64))
        known = self.candidates.with_row_index("candidate").with_columns(pl.col("candidate").cast(pl.Int64))
        known = known.join(runs, on="candidate", how="left", maintain_order="left")
        rounds = pl.col("round").sum().over("structure")
        known = known.with_columns(
            compiling=pl.col("first").sum().over("structure"), each=pl.col("rest").sum().over("structure") / rounds.clip(1)
        )
        return Compute(*(known[name].to_numpy() for name in ("structure", "compiling", "each")))

    def costs(self, price: Price) -> np.ndarray:
        """Return the cost of each candidate with each seed [candidates, seeds], infinite where it does not arrive."""
        costs = np.full((len(self.candidates), len(SEEDS)), math.inf)
        for (candidate, seed), curve in self.curves.items():
            if curve.met:
                costs[candidate, seed] = curve.cost(price)[-1]
        return costs

    def order(self, price: Price) -> np.ndarray:
        """Return the candidates by their median cost, those with the same by their mean cost."""
        costs = self.costs(price)
        means = np.where(np.isfinite(costs), costs, np.finfo(np.float32).max).mean(1)
        return np.lexsort((means, median(costs)))

    def best(self, price: Price) -> int:
        """Return the first candidate of `order`."""
        return int(self.order(price)[0])

    def number(self, family: str, setting: str) -> int:
        """Return the number of a candidate."""
        return self._numbers[family, setting]

    def bill(self, planner: Planner) -> float:
        """Return the CPU seconds of the programs and rounds that a planner has played, by what they take here."""
        seconds = 0.0
        for family in planner.families:
            for place in family.structures:
                own = [(self.number(family.name, one.setting.label), one) for one in family.played(place)]
                rounds = np.array([sum(trial.rounds for trial in one.trials()) for _, one in own])
                if rounds.any():
                    numbers = [number for number, _ in own]
                    seconds += float(self.compute.compiling[numbers[0]] + rounds @ self.compute.round[numbers])
        return seconds

    def contender(self, candidate: int) -> Contender:
        """Return a candidate, ready to be played."""
        row = self.candidates.row(candidate, named=True)
        return self._families[row["family"]].contenders(tuple(row["place"]))[row["number"]]

    def fresh_costs(self, candidate: int, price: Price, seeds: range = FRESH_SEEDS) -> np.ndarray:
        """Return the cost of a candidate on each fresh seed, infinite where it does not arrive."""
        one = self.contender(candidate)
        for seed in seeds:
            if (candidate, seed) not in self._fresh:
                self._fresh[candidate, seed] = end_of(one.trial(seed))
        return costs_of([self._fresh[candidate, seed] for seed in seeds], price)

    def fresh_cost(self, candidate: int | None, price: Price, seeds: range = FRESH_SEEDS) -> float:
        """Return the median cost of a candidate over the fresh seeds, infinite for none."""
        return math.inf if candidate is None else float(median(self.fresh_costs(candidate, price, seeds)))

    def _played(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Play all candidates, and return these and the rows of all runs."""
        candidates, rows, structures = [], [], 0
        for family in self.planner.families:
            for place, structure in family.structures.items():
                marks = [time.process_time()]
                for number, one in enumerate(family.contenders(place)):
                    facts = {"family": family.name, "setting": one.setting.label, "values": json.dumps(one.setting.values)}
                    facts |= {"place": list(place), "number": number, "structure": structures, "first": 0.0, "rest": 0.0}
                    for seed in SEEDS:
                        rows.append(self._run(one, len(candidates), seed))
                        marks.append(time.process_time())
                    candidates.append(facts)
                if len(marks) > 1:
                    candidates[-1] |= {"first": marks[1] - marks[0], "rest": marks[-1] - marks[1]}
                structures += 1
                structure.forget()
                self.planner.store.trials.clear()
            # Programs that are kept take memory maps, of which a process may have 65,530.
            jax.clear_caches()
            print(f"{self.name}: {family.name}, {len(candidates)} candidates", flush=True)
        return pl.DataFrame(candidates), pl.concat([one for one in rows if one.height], how="diagonal_relaxed")

    def _run(self, one: Contender, candidate: int, seed: int) -> pl.DataFrame:
        """Play a run to its end and return its rows."""
        trial = one.trial(seed)
        trial.play(Exchanges(), math.inf)
        if not trial.frame.height:
            return pl.DataFrame()
        own = {"candidate": candidate, "seed": seed, "met": trial.met}
        kept = [pl.lit(value).alias(name) for name, value in own.items()]
        return trial.frame.select(*kept, "round", pl.col(self.metric).alias("metric"), *EVENTS)


def end_of(trial: Trial) -> pl.DataFrame | None:
    """Play a run to its end, and return the row at which it reaches the target; None where it does not."""
    trial.play(Exchanges(), math.inf)
    return trial.frame[-1:] if trial.met else None


def costs_of(ends: list[pl.DataFrame | None], price: Price) -> np.ndarray:
    """Return the costs of runs from their last rows, infinite for those that did not arrive."""
    return np.array([math.inf if end is None else float(np.asarray(price.cost(end), float)[0]) for end in ends])
