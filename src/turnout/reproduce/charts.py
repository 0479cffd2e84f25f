"""The charts that reproductions share: medians with a band between the quartiles, their colours, dashes and axes."""

import altair as alt
import numpy as np
import polars as pl

from turnout.report.charts import LOG_LABELS
from turnout.report.downsample import log_ticks
from turnout.report.theme import DASHES, LIGHT
from turnout.reproduce.page import Panel

WIDTH, HEIGHT, POINTS = 380, 250, 120
LEGEND = {
    "title": None,
    "orient": "top",
    "columns": 3,
    "symbolOpacity": 1,
    "symbolSize": 200,
    "labelFontSize": 11,
    "columnPadding": 6,
}


def quartiles(rows: pl.DataFrame, names: dict[str, str], key: str, x: str, y: str, title: str) -> Panel:
    """Draw the median over the seeds of the column `y` > 0 against `x` on a log axis, with a band between the quartiles.

    There is a line for each value of `key` in `names`, which says what they are called.
    """
    looked = rows[x].unique().sort()
    kept = looked[np.unique(np.linspace(0, len(looked) - 1, POINTS).round().astype(int))]
    shares = {"low": 0.25, "median": 0.5, "high": 0.75}
    found = (
        rows.filter(pl.col(key).is_in(list(names)), pl.col(x).is_in(kept.implode()), pl.col(y) > 0)
        .group_by(key, x)
        .agg(pl.col(y).quantile(share, "linear").alias(name) for name, share in shares.items())
        .sort(key, x)
    )
    points = [{**row, "label": names[row.pop(key)]} for row in map(compact, found.iter_rows(named=True))]
    return banded(points, list(names.values()), alt.X(f"{x}:Q", title=x), title)


def banded(points: list[dict], labels: list[str], x: alt.X, title: str, columns: int = 3, y: alt.Y | None = None) -> Panel:
    """Draw a line through the "median" of the points of each label, with a band from "low" to "high", on a log axis or on `y`."""
    y = log_axis([row["median"] for row in points], "median:Q") if y is None else y
    common = alt.Chart(alt.Data(values=points)).encode(x=x, color=colored(labels, columns))
    band = common.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title=None), y2="high:Q")
    line = common.mark_line(strokeWidth=2).encode(y=y, strokeDash=dashed(labels, columns))
    return finished([band, line], title)


def compared(runs: pl.DataFrame) -> list[dict]:
    """Return the quartiles over the seeds of the last `y` that each run had seen at some `x`, up to where the first one ends."""
    each = [(frame["x"].to_numpy(), frame["y"].to_numpy()) for _, frame in runs.sort("x").group_by("seed", maintain_order=True)]
    if not each:
        return []
    start, end = max(x[0] for x, _ in each), min(x[-1] for x, _ in each)
    points = np.linspace(start, end, POINTS)
    values = np.sort([y[np.searchsorted(x, points, side="right") - 1] for x, y in each], axis=0)
    low, middle, high = (values[int(q * (len(values) - 1))] for q in (0.25, 0.5, 0.75))
    return [
        dict(zip(("x", "low", "median", "high"), map(float, row), strict=True))
        for row in zip(points, low, middle, high, strict=True)
    ]


def client_sizes(sizes: np.ndarray, title: str) -> Panel:
    """Draw the clients' rows, the largest first."""
    rows = [{"client": rank, "rows": int(many)} for rank, many in enumerate(sorted(sizes, reverse=True), start=1)]
    y = log_axis([row["rows"] for row in rows], "rows:Q")
    dots = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=18, opacity=1, color=LIGHT["lines"][0])
    return finished([dots.encode(x=alt.X("client:Q", title="client, by size"), y=y)], title)


def compact(row: dict) -> dict:
    """Keep five significant digits of each number."""
    return {name: float(f"{value:.5g}") if isinstance(value, float) else value for name, value in row.items()}


def colored(labels: list[str], columns: int = 3, symbol: str = "stroke") -> alt.Color:
    """Give each label its colour."""
    legend = alt.Legend(**LEGEND | {"columns": columns}, symbolType=symbol)
    return alt.Color("label:N", scale=alt.Scale(domain=labels), legend=legend)


def dashed(labels: list[str], columns: int = 3) -> alt.StrokeDash:
    """Give each label its dashes: other ones once the colours are used up."""
    dashes = [DASHES[k // len(LIGHT["lines"]) % len(DASHES)] for k in range(len(labels))]
    legend = alt.Legend(**LEGEND | {"columns": columns}, symbolType="stroke")
    return alt.StrokeDash("label:N", scale=alt.Scale(domain=labels, range=dashes), legend=legend)


def log_axis(values: list[float], field: str) -> alt.Y:
    """Return an upright log axis with room for `values`."""
    ticks = log_ticks(values)
    y = alt.Y(field, title=None, scale=alt.Scale(type="log", nice=False, padding=8))
    return y.axis(labelExpr=LOG_LABELS, **({"values": ticks} if ticks else {}))


def finished(layers: list[alt.Chart], title: str) -> Panel:
    """Return one chart of all layers."""
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=alt.TitleParams(title, anchor="start"))
    return Panel(title, chart)
