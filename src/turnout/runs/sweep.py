"""The cells of a sweep, and their traces."""

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from turnout.accounting.prices import Price
from turnout.core.errors import UserError
from turnout.runs.arguments import checked_grid
from turnout.runs.trace import Trace

if TYPE_CHECKING:
    import polars as pl


class Cell(NamedTuple):
    """One run of a sweep.

    Args:
        settings: Hyper-parameters to set, by dotted name.
        seed: Seed of all random draws.
    """

    settings: dict[str, float]
    seed: int

    @property
    def name(self) -> str:
        """Settings and seed, such as "gamma=10 inner=3 seed=0"."""
        return f"{self.setting} seed={self.seed}".lstrip()

    @property
    def setting(self) -> str:
        """The settings alone, such as "gamma=10 inner=3"."""
        return " ".join(f"{name}={value:g}" for name, value in self.settings.items())


def checked_seeds(seeds: Iterable[int]) -> list[int]:
    """Return seeds; `UserError` if they are no list of different whole numbers from 0.

    Args:
        seeds: The seeds.
    """
    if isinstance(seeds, (str, bytes)) or not isinstance(seeds, Iterable):
        raise UserError(f"seeds must be a list of whole numbers, but they are {seeds!r}: write seeds=range(5) or [0, 1, 2]")
    given = list(seeds)
    for k, seed in enumerate(given):
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32:
            raise UserError(f"seeds must be whole numbers from 0 to 2^32 - 1, but seed {k} is {seed!r}: write seeds=range(5)")
        if seed in given[:k]:
            raise UserError(f"seeds must differ, but {seed} occurs twice: the same seed gives the same run, so leave it out")
    if not given:
        raise UserError("seeds are an empty list: give one at least, such as seeds=[0]")
    return [int(seed) for seed in given]


def cells_of(grid: Mapping[str, Iterable[float]], seeds: Iterable[int]) -> list[Cell]:
    """Return the cells of `grid` times `seeds`; the seed changes fastest.

    Args:
        grid: Values of each hyper-parameter, by its path.
        seeds: Seeds of the runs.
    """
    lists, seeds = checked_grid(grid), checked_seeds(seeds)
    return [Cell(dict(zip(lists, values, strict=True)), int(seed)) for *values, seed in product(*lists.values(), seeds)]


@dataclass(frozen=True)
class Sweep:
    """The traces of a sweep.

    Args:
        cells: Settings and seed of each run.
        traces: Trace of each run.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> sweep = t.sweep(t.FedAvg(t.Nice(4), lr=0.1), problem, {"lr": [0.01, 0.1]}, seeds=[0, 1], rounds=5)
        >>> [cell.name for cell in sweep.cells]
        ['lr=0.01 seed=0', 'lr=0.01 seed=1', 'lr=0.1 seed=0', 'lr=0.1 seed=1']
    """

    cells: list[Cell]
    traces: list[Trace]

    def __repr__(self) -> str:
        values = {name: list(dict.fromkeys(cell.settings[name] for cell in self.cells)) for name in self.cells[0].settings}
        seeds = list(dict.fromkeys(cell.seed for cell in self.cells))
        grid = ", ".join(f"{name}={reprlib.repr(shown)}" for name, shown in {**values, "seed": seeds}.items())
        return f"Sweep({len(self.cells)} runs, {grid}; the first is {self.traces[0]!r})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the median over the seeds of the last rows of each setting, and a chart."""
        from turnout.report.notebook import runs_html

        groups: dict[str, list[pl.DataFrame]] = {}
        for cell, trace in zip(self.cells, self.traces, strict=True):
            groups.setdefault(cell.setting or "all", []).append(trace.frame)
        return runs_html(groups)

    @property
    def frame(self) -> "pl.DataFrame":
        """The rows of all traces, with settings and seed as further columns."""
        import polars as pl

        frames = [
            trace.frame.select(*(pl.lit(v).alias(k) for k, v in cell.settings.items()), pl.lit(cell.seed).alias("seed"), "*")
            for cell, trace in zip(self.cells, self.traces, strict=True)
        ]
        return pl.concat(frames, how="vertical_relaxed")

    def costs(self, price: Price | None = None) -> "pl.DataFrame":
        """Return the median cost of the target over the seeds of each setting, cheapest first.

        Seeds that miss the target have infinite cost; the column "reached" counts the others. Of an even number of seeds the
        median is the larger of the two costs in the middle.

        Args:
            price: Price of the events; default: one for each exchange.
        """
        import polars as pl

        rows = [{**cell.settings, "cost": cost} for cell, cost in zip(self.cells, self._costs(price), strict=True)]
        settings = list(self.cells[0].settings)
        frame = pl.DataFrame(rows).with_columns(reached=pl.col("cost").is_finite())
        grouped = frame.group_by(settings or pl.lit("all").alias("settings"), maintain_order=True)
        return grouped.agg(pl.col("cost").quantile(0.5, interpolation="higher"), pl.col("reached").sum()).sort("cost")

    def typical(self, setting: Mapping[str, float], price: Price | None = None) -> Trace:
        """Return the trace with the median cost among the seeds of `setting`.

        Args:
            setting: A value for each name in the grid.
            price: Price of the events; default: one for each exchange.
        """
        ranked = sorted(
            (cost, k)
            for k, (cell, cost) in enumerate(zip(self.cells, self._costs(price), strict=True))
            if all(setting[name] == value for name, value in cell.settings.items())
        )
        return self.traces[ranked[len(ranked) // 2][1]]

    def _costs(self, price: Price | None) -> list[float]:
        costs = [trace.cost(price) for trace in self.traces]
        return [float("inf") if cost is None else cost for cost in costs]
