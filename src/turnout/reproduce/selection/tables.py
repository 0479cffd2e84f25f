"""The arithmetic of the tables: the best setting of each contender at each price, and how costs grow."""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from turnout.accounting.prices import Selection
from turnout.reproduce.selection.paper import Setup

CELL = ["problem", "contender", "setting"]


@dataclass(frozen=True)
class Best:
    """The cheapest setting of a contender on a problem, its median cost over the seeds, and medians of what else it took there.

    All are infinite where half of the seeds or more did not arrive with any setting.
    """

    setting: str
    cost: float
    queries: float
    bytes: float


class Numbers:
    """The best settings, looked up by problem, contender and setup."""

    def __init__(self, hits: pl.DataFrame, setups: list[Setup]):
        self._best = {(*key, setup): best for setup in setups for key, best in cheapest(hits, setup).items()}

    def best(self, problem: str, contender: str, setup: Setup) -> Best:
        """Return the best setting for a setup."""
        return self._best.get((problem, contender, setup), Best("", math.nan, math.nan, math.nan))

    def rows(self) -> list[dict]:
        """Return all of them as plain data; a cost that is not finite is None."""
        return [
            {"problem": problem, "contender": contender, **vars(setup)}
            | {key: value if isinstance(value, str) or math.isfinite(value) else None for key, value in vars(best).items()}
            for (problem, contender, setup), best in self._best.items()
        ]


def cheapest(hits: pl.DataFrame, setup: Setup) -> dict[tuple[str, str], Best]:
    """Return the best setting of each problem and contender for a setup.

    Medians of an even number of seeds are the larger of the two in the middle, so that infinity does no harm.
    """
    mine, both = hits.filter(pl.col("below") == setup.below), pl.col("bytes_down") + pl.col("bytes_up")
    spent = {"cost": spending(setup.arbitrary), "queries": pl.col("queries_slowest"), "bytes": both}
    filled = mine.with_columns(value.cast(pl.Float64).fill_null(math.inf).alias(name) for name, value in spent.items())
    middle = [pl.col(name).quantile(0.5, interpolation="higher") for name in spent]
    found = filled.group_by(CELL, maintain_order=True).agg(middle).sort("cost", "queries", maintain_order=True)
    first = found.group_by("problem", "contender", maintain_order=True).first()
    return {
        (row["problem"], row["contender"]): Best(**{name: row[name] for name in ("setting", *spent)})
        for row in first.iter_rows(named=True)
    }


def spending(arbitrary: float) -> pl.Expr:
    """Return the cost of a row of events where C_A = `arbitrary` and C_R = 1."""
    names = ("draws_arbitrary", "draws_random", "draws_delegate", "reasks")
    return Selection(arbitrary=arbitrary).cost({name: pl.col(name) for name in names})


def exponent(sizes: list[float], costs: list[float]) -> float:
    """Return the slope of log cost against log size, by least squares; NaN where a cost is not finite."""
    if not np.all(np.isfinite(costs)):
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
