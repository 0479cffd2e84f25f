"""The arithmetic of the tables: the best setting of each contender at each price, and how costs grow."""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from turnout.prices import Price, Selection

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
    """The best settings, looked up by problem, contender and price."""

    def __init__(self, hits: pl.DataFrame, prices: list[Selection]):
        self._best = {(price.arbitrary, *key): best for price in prices for key, best in cheapest(hits, price).items()}

    def best(self, problem: str, contender: str, arbitrary: float = 1.0) -> Best:
        """Return the best setting where C_A = `arbitrary` and C_R = 1."""
        return self._best.get((arbitrary, problem, contender), Best("", math.nan, math.nan, math.nan))

    def rows(self) -> list[dict]:
        """Return all of them as plain data; a cost that is not finite is None."""
        return [
            {"arbitrary": ratio, "problem": problem, "contender": contender}
            | {key: value if isinstance(value, str) or math.isfinite(value) else None for key, value in vars(best).items()}
            for (ratio, problem, contender), best in self._best.items()
        ]


def cheapest(hits: pl.DataFrame, price: Price) -> dict[tuple[str, str], Best]:
    """Return the best setting of each problem and contender at `price`.

    Medians of an even number of seeds are the larger of the two in the middle, so that infinity does no harm.
    """
    both = pl.col("bytes_down") + pl.col("bytes_up")
    spent = {"cost": spending(price), "queries": pl.col("queries_slowest"), "bytes": both}
    filled = hits.with_columns(value.cast(pl.Float64).fill_null(math.inf).alias(name) for name, value in spent.items())
    middle = [pl.col(name).quantile(0.5, interpolation="higher") for name in spent]
    found = filled.group_by(CELL, maintain_order=True).agg(middle).sort("cost", "queries", maintain_order=True)
    first = found.group_by("problem", "contender", maintain_order=True).first()
    return {
        (row["problem"], row["contender"]): Best(**{name: row[name] for name in ("setting", *spent)})
        for row in first.iter_rows(named=True)
    }


def spending(price: Price) -> pl.Expr:
    """Return the cost of a row of events under `price`."""
    names = ("draws_arbitrary", "draws_random", "draws_delegate", "reasks")
    return price.cost({name: pl.col(name) for name in names})


def exponent(sizes: list[float], costs: list[float]) -> float:
    """Return the slope of log cost against log size, by least squares; NaN where a cost is not finite."""
    if not np.all(np.isfinite(costs)):
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
