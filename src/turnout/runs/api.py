"""Running algorithms on problems from Python: one run, or a sweep as one compiled program."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

import polars as pl
from jaxtyping import PyTree

from turnout.accounting.prices import Price
from turnout.accounting.target import Target
from turnout.core.algorithm import Algorithm
from turnout.core.seeds import Seeds
from turnout.engines.faults import Faults
from turnout.engines.inputs import Aggregation
from turnout.privacy.mechanism import Privacy
from turnout.problems.base import Precision, Problem
from turnout.runs.arguments import check_grid
from turnout.runs.session import MEMORY, Cell, Session
from turnout.runs.trace import Trace


def run(
    algorithm: Algorithm,
    problem: Problem,
    *,
    rounds: int,
    seed: int = 0,
    seeds: Seeds | None = None,
    every: int = 1,
    target: Target | None = None,
    metrics: tuple[str, ...] | None = None,
    engine: Literal["compiled", "nodes"] = "compiled",
    precision: Precision | None = None,
    aggregation: Aggregation = "plain",
    faults: Faults | None = None,
    privacy: Privacy | None = None,
    test: Problem | None = None,
    held_out: Problem | None = None,
    memory: int = MEMORY,
    start: PyTree | Path | str | None = None,
) -> Trace:
    """Play `rounds` rounds of `algorithm` on `problem` and return the trace, one row every `every` rounds.

    `seeds` gives each purpose a seed of its own. `metrics` are names of `metrics.NAMES`; the default is the value, the accuracy
    of a classifier, the same of `test`, a problem that holds rows to test with, and of `held_out`, one whose clients are never
    drawn, and what `target` asks for. Unless given, `precision` is double, or single for a `Neural`. An exchange works on at most
    `memory` bytes of client data at a time. It begins at the parameters `start`, given as they are or as the file of a saved
    model, or else at the problem's. With `aggregation` "sum", on the engine "nodes", the server gets only weighted sums of
    replies.
    """
    session = Session(
        algorithm, problem, seeds=seeds or Seeds.of(seed), rounds=rounds, every=every, target=target,
        metrics=metrics, engine=engine, precision=precision, aggregation=aggregation, faults=faults, privacy=privacy,
        test=test, held_out=held_out, memory=memory, start=start,
    )  # fmt: skip
    return session.run().trace


@dataclass(frozen=True)
class Sweep:
    """The traces of all cells, each with the settings and the seed it had."""

    cells: list[Cell]
    traces: list[Trace]

    @property
    def frame(self) -> pl.DataFrame:
        """The rows of all cells, with their settings and seed as further columns."""
        marked = [
            trace.frame.select(*(pl.lit(v).alias(k) for k, v in cell.settings.items()), pl.lit(cell.seed).alias("seed"), "*")
            for cell, trace in zip(self.cells, self.traces, strict=True)
        ]
        return pl.concat(marked, how="vertical_relaxed")

    def costs(self, price: Price | None = None) -> pl.DataFrame:
        """What the target cost each setting: the median over its seeds under `price` (default: exchanges), and how many met it.

        Seeds that did not reach the target count as infinitely dear. Cheapest first.
        """
        rows = [{**cell.settings, "cost": cost} for cell, cost in zip(self.cells, self._costs(price), strict=True)]
        settings = list(self.cells[0].settings)
        frame = pl.DataFrame(rows).with_columns(reached=pl.col("cost").is_finite())
        grouped = frame.group_by(settings or pl.lit("all").alias("settings"), maintain_order=True)
        return grouped.agg(pl.col("cost").median(), pl.col("reached").sum()).sort("cost")

    def typical(self, setting: Mapping[str, float], price: Price | None = None) -> Trace:
        """Return the trace of the seed with the median cost among those with `setting`."""
        mine = [
            (cost, k)
            for k, (cell, cost) in enumerate(zip(self.cells, self._costs(price), strict=True))
            if all(setting[name] == value for name, value in cell.settings.items())
        ]
        return self.traces[sorted(mine)[(len(mine) - 1) // 2][1]]

    def _costs(self, price: Price | None) -> list[float]:
        costs = [trace.cost(price) for trace in self.traces]
        return [float("inf") if cost is None else cost for cost in costs]


def sweep(
    algorithm: Algorithm,
    problem: Problem,
    grid: Mapping[str, Iterable[float]],
    *,
    rounds: int,
    seeds: Iterable[int] = (0,),
    every: int = 1,
    target: Target | None = None,
    metrics: tuple[str, ...] | None = None,
    precision: Precision | None = None,
    faults: Faults | None = None,
    test: Problem | None = None,
    held_out: Problem | None = None,
    memory: int = MEMORY,
    start: PyTree | Path | str | None = None,
) -> Sweep:
    """Play every combination of the values in `grid` with every seed, in one compiled program.

    `grid` maps field names such as "gamma" or "solver.smoothness" to values; each cell equals the `run` with them.
    """
    cells = cells_of(grid, seeds)
    session = Session(
        algorithm, problem, seeds=Seeds.of(0), rounds=rounds, every=every, target=target,
        metrics=metrics, precision=precision, faults=faults, test=test, held_out=held_out, memory=memory, start=start,
        cells=cells,
    )  # fmt: skip
    return Sweep(cells, session.run().traces)


def cells_of(grid: Mapping[str, Iterable[float]], seeds: Iterable[int]) -> list[Cell]:
    """Return the cells of `grid` times `seeds`, the seeds running fastest."""
    check_grid(grid)
    return [Cell(dict(zip(grid, values, strict=True)), int(seed)) for *values, seed in product(*map(list, grid.values()), seeds)]
