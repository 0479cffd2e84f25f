"""The arithmetic of a comparison of samplers: means over seeds with standard errors, reductions, slopes and ratios."""

import math

import numpy as np
import polars as pl

CELL = ["sampler", "weights", "size"]
MEASURES = ("variance", "late", "regret", "static_regret", "test_value", "to_best")


def runs(rounds: pl.DataFrame, late: int) -> pl.DataFrame:
    """Return a row for each run: mean variance, that of the `late` last rounds, regrets and test loss at the end, `to_best`.

    `to_best` is the variance against the least that an independent sampler could have had on the same trajectory:
    sum_t V(p_t) / sum_t V(p*_t), where V(p_t) - V(p*_t) is what round t adds to the regret. A row's variance is the mean since
    the row before.
    """
    run = [*CELL, "seed"]
    spans = rounds.sort("round").with_columns(span=pl.col("round") - pl.col("round").shift(1, fill_value=0).over(run))
    total, last = pl.col("variance") * pl.col("span"), pl.col("round") > pl.col("round").max() - late
    found = spans.group_by(run, maintain_order=True).agg(
        total.sum() / pl.col("round").last(),
        late=total.filter(last).sum() / pl.col("span").filter(last).sum(),
        regret=pl.col("regret").last(),
        static_regret=pl.col("static_regret").last(),
        test_value=pl.col("test_value").last(),
        to_best=total.sum() / (total.sum() - pl.col("regret").last()),
    )
    return found.sort(run)


def means(found: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each sampler, weights and size: each measure's mean over the seeds, its standard error as "NAME_error"."""
    errors = [(pl.col(name).std() / pl.len().sqrt()).fill_null(0).alias(f"{name}_error") for name in MEASURES]
    return found.group_by(CELL).agg(*(pl.col(name).mean() for name in MEASURES), *errors).sort(CELL)


class Numbers:
    """The means of all samplers, looked up by name, size and measure."""

    def __init__(self, averaged: pl.DataFrame):
        self.frame = averaged
        self._cells = {(row["sampler"], row["weights"], row["size"]): row for row in averaged.iter_rows(named=True)}

    def get(self, sampler: str, size: int, measure: str, weights: str = "size") -> float:
        """Return the mean of `measure`, NaN where that was not played."""
        return self._cells.get((sampler, weights, size), {}).get(measure, math.nan)

    def reduction(self, sampler: str, against: str, size: int, measure: str, weights: str = "size") -> float:
        """Return by how much percent the measure of `sampler` is below that of `against`; below zero it is above."""
        mine, theirs = (self.get(name, size, measure, weights) for name in (sampler, against))
        return 100 * (1 - mine / theirs) if theirs else math.nan

    def slope(self, sampler: str, sizes: list[int], measure: str = "regret") -> float:
        """Return the power of K that the measure follows."""
        return fitted([(size, self.get(sampler, size, measure)) for size in sizes])[0]


def fitted(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Return a, b of the least-squares line log y = a log K + b through the `points` (K, y), y > 0; NaN if there is but one."""
    kept = np.array([(size, value) for size, value in points if value > 0])
    if len(kept) < 2:
        return math.nan, math.nan
    a, b = np.polyfit(np.log(kept[:, 0]), np.log(kept[:, 1]), 1)
    return float(a), float(b)
