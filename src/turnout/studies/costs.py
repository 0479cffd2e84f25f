"""What reaching a goal costs: for every run, and in the median over the seeds of every setting."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from turnout.accounting.ledger import EVENTS
from turnout.accounting.prices import Price
from turnout.accounting.target import is_own, smaller_better
from turnout.engines.metrics import NAMES
from turnout.studies.goals import Goal
from turnout.studies.statistics import interval, median, quartiles

SETTING = ["problem", "method", "setting", "purpose"]
FURTHER = {"round", "diverged", *NAMES, *EVENTS}
"""The columns of runs, beside metrics of one's own, that change along a run, or belong to its end."""


def run_costs(rows: pl.DataFrame, goal: Goal, price: Price) -> pl.DataFrame:
    """Return the cost of each run: the price at the first row at which `goal` is reached, infinite where it never is.

    The column "queries" holds the oracle calls of the slowest clients at that row, and "best" the smallest value of the metric
    in the run, of an accuracy that of the error rate. A goal without a level costs this, or the last
    value.
    """
    if goal.metric not in rows.columns:
        return pl.DataFrame()
    run = [name for name in rows.columns if name not in FURTHER and not is_own(name)]
    rows = rows.filter(about(goal, rows.schema), pl.col(goal.metric).is_not_null())
    rows = rows.with_columns(spent=pl.Series(np.asarray(price.cost(rows), float)))
    records = []
    for one in rows.partition_by(run, maintain_order=True):
        values = one[goal.metric].to_numpy()
        hit = goal.hit(values, diverged=one["diverged"][-1])
        spent, queries = (np.inf if hit is None else float(one[name][hit]) for name in ("spent", "queries_slowest"))
        smaller = smaller_better(goal.metric, values)
        best = float(np.fmin.reduce(smaller))
        if not goal.levelled:
            last = np.inf if hit is None else float(smaller[hit])
            spent = last if goal.hold == "last" else best
        records.append({**one.select(run).row(0, named=True), "cost": spent, "queries": queries, "best": best})
    schema = {name: rows.schema[name] for name in run} | dict.fromkeys(("cost", "queries", "best"), pl.Float64)
    return pl.DataFrame(records, schema=schema)


def about(goal: Goal, schema: Mapping[str, Any]) -> pl.Expr:
    """Return which rows of a table `goal` is about: its problems, and settings with its values of swept keys."""
    wanted = pl.lit(True) if goal.problems is None else pl.col("problem").is_in(goal.problems)
    for key, value in (goal.where or {}).items():
        equal = pl.col(key) == (str(value) if schema[key] == pl.String else value) if key in schema else pl.lit(False)
        wanted &= equal
    return wanted


def costs(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the median cost of each setting over its seeds, with quartiles and a bootstrap interval.

    "mean" is their mean, "reached" counts the seeds of which the goal was reached; "queries" and "best" are medians of those of
    `run_costs`.

    Args:
        runs: The costs of runs, as `run_costs` returns them.
    """
    if runs.is_empty():
        return pl.DataFrame()
    keys = [name for name in runs.columns if name not in {*SETTING, "seed", "cost", "queries", "best"}]
    summaries = []
    for group in runs.partition_by(SETTING, maintain_order=True):
        spent = group["cost"].to_numpy()
        low, high = quartiles(spent)
        least, most = interval(spent)
        middle = {name: float(median(group[name].to_numpy())) for name in ("queries", "best")}
        middle["mean"] = float(spent.mean())
        facts = {"cost": float(median(spent)), "low": low, "high": high, "interval_low": least, "interval_high": most, **middle}
        counts = {"reached": int(np.isfinite(spent).sum()), "seeds": spent.size}
        summaries.append({**group.select(*SETTING, *keys).row(0, named=True), **facts, **counts})
    return pl.DataFrame(summaries, infer_schema_length=None)


def best_settings(summary: pl.DataFrame, by: Sequence[str] = ("problem", "method")) -> pl.DataFrame:
    """Return the cheapest setting of each problem and method, of several that with the least mean, or else the fewest queries.

    Where no setting reaches the goal in the median, it is the one that comes nearest.

    Args:
        summary: The rows of `costs`.
        by: The columns of which each combination of values has its own setting.
    """
    if summary.is_empty():
        return summary
    ranked = summary.with_row_index().sort("cost", "mean", "queries", "best", maintain_order=True, nulls_last=True)
    return ranked.unique(by, keep="first", maintain_order=True).sort("index").drop("index")
