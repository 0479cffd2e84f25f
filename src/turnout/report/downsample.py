"""Downsampling: the points of a figure, and notes on what is left out."""

import math
from dataclasses import dataclass

import numpy as np

from turnout.accounting.prices import Price
from turnout.report.loaded_run import Result

MOST = 1000
"""The largest number of points of a line."""


LARGEST = 1e250
"""Larger values count as infinite, and values below its inverse as zero, since an axis extends beyond the values."""

ROOM = 100
"""A lower bound is drawn down to the smallest value of the run divided by this."""

TICKS = 8
"""The most powers of ten that a log axis names."""


@dataclass(frozen=True)
class Points:
    """What a figure shows.

    Args:
        rows: Points with label, round, metric, hit, cost0, cost1, ... (one for each price), and the bounds of theory.
        floors: The sampling error of one cohort with its label, if it is known.
        notes: Sentences on what is left out, and on what is theory.
    """

    rows: list[dict]
    floors: list[dict]
    notes: list[str]

    def heights(self) -> list[float]:
        """Return all values on the vertical axis."""
        return [row[key] for row in (*self.rows, *self.floors) for key in ("metric", "bound", "lower", "floor") if key in row]


def points(result: Result, metric: str, prices: list[Price], log: bool) -> Points:
    """Return the points of `metric`; a log axis shows positive values only.

    Args:
        result: A finished run.
        metric: Name of the metric.
        prices: Prices of the events.
        log: Whether the axis is logarithmic.
    """
    values = np.asarray(result.values(metric), float)
    visible = np.flatnonzero((np.abs(values) < LARGEST) & (values > 1 / LARGEST if log else True))
    rows = _rows(result, metric, values, prices, thin(visible, MOST, result.hit))
    notes, hidden = [], len(values) - len(visible)
    if hidden:
        which = "zero, negative or not finite, which a log axis cannot show" if log else "not finite"
        notes.append(f"left out: {hidden:,} {'value' if hidden == 1 else 'values'} {which}")
    if len(visible) > MOST:
        notes.append(f"drawn: at most {MOST:,} evaluations, evenly spaced")
    if any("bound" in row for row in rows):
        notes.append("thin dashes: the theorem’s bound on the mean over seeds, for exact proximal steps")
    if any("lower" in row for row in rows):
        notes.append("thin dots: the lower bound of any method on the mean over seeds (Theorem 7.1 of FedDCD)")
    return Points(rows, _floors(result) if metric == "distance" else [], notes)


def thin(rows: np.ndarray, limit: int, hit: int | None) -> np.ndarray:
    """Return at most `limit` >= 3 of the row numbers `rows`: the first, the last, `hit` and others evenly spaced.

    Args:
        rows: Numbers of the trace rows, in order.
        limit: Largest number of rows to return.
        hit: The row that met the target; None without.
    """
    if len(rows) <= limit:
        return rows
    chosen = rows[np.linspace(0, len(rows) - 1, limit - 1).round().astype(int)]
    return np.union1d(chosen, rows[rows == hit]) if hit is not None else chosen


def log_ticks(values: list[float]) -> list[float] | None:
    """Return round numbers within the range of the positive `values`; None if there are fewer than two."""
    low, high = min(values, default=1.0), max(values, default=1.0)
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    if last - first >= 2:
        step = math.ceil((last - first + 1) / TICKS)
        return [10.0**k for k in range(first, last + 1) if k % step == 0]
    ticks = [m * 10.0**k for k in range(first - 1, last + 1) for m in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return ticks if len(ticks) >= 2 else None


def _floors(result: Result) -> list[dict]:
    """Return the sampling error of one cohort, if it is known and can be drawn."""
    known = result.floor is not None and result.floor > 1 / LARGEST
    return [{"floor": _compact(result.floor), "text": "sampling error of one cohort"}] if known else []


def _rows(result: Result, metric: str, values: np.ndarray, prices: list[Price], chosen: np.ndarray) -> list[dict]:
    rounds = result.trace["round"].to_numpy()[chosen]
    costs = [np.asarray(price.cost(result.trace), float)[chosen] for price in prices]
    hit = result.hit if result.target and result.target.metric == metric else None
    bound = {"distance": result.bound, "dual_gap": result.dual_bound}.get(metric)
    lower = _lower(result, metric, rounds, values[chosen])
    return [
        {
            "label": result.label,
            "round": int(rounds[j]),
            "metric": _compact(values[row]),
            "hit": bool(row == hit),
            **{f"cost{k}": _compact(cost[j]) for k, cost in enumerate(costs)},
            **({} if bound is None else {"bound": _compact(bound[row])}),
            **({"lower": _compact(lower[j])} if lower[j] > 0 else {}),
        }
        for j, row in enumerate(chosen)
    ]


def _lower(result: Result, metric: str, rounds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the lower bound after `rounds`; 0 where there is none, or where it is far below all `values`."""
    if result.lower is None or metric not in ("distance", "gap") or not values.size:
        return np.zeros(len(rounds))
    lower = result.lower.at(rounds, metric)
    return np.where(lower >= values.min() / ROOM, lower, 0)


def _compact(value: float) -> float:
    """Round to seven significant digits, more than a screen shows, so that pages are small."""
    return float(f"{value:.7g}")
