"""Figures from the frames of a reproduction: panels of one chart each."""

import math
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

from turnout.report.charts import LOG_LABELS
from turnout.report.downsample import log_ticks
from turnout.report.format import number
from turnout.reproduce.costs.paper import Figure, Line, Paper
from turnout.reproduce.costs.tables import UNITS, medians, tuned
from turnout.reproduce.page import Panel

WIDTH, HEIGHT = 380, 230
POINTS = 150
"""The most points of a drawn curve."""

LEGEND = alt.Legend(
    title=None, orient="top", symbolType="stroke", symbolOpacity=1, symbolSize=60, labelFontSize=11, columnPadding=6
)

COUNTS = {"iterations": "solver iterations", "exchanges": "true exchanges"}
"""What the two units are called."""


def panels(figure: Figure, paper: Paper, sets: list[str], hits: pl.DataFrame, curves: pl.DataFrame, floors) -> list[Panel]:
    """Return the panels of `figure`: of a cost figure two abreast, the first in the paper's unit, the second in true exchanges.

    `floors` maps a data set to sampling-error floors by label.
    """
    names = [Path(data).name for data in sets]
    if figure.kind == "convergence":
        return [convergence_panel(figure, name, paper.targets, curves, floors.get(name, {})) for name in names]
    return [
        cost_panel(figure, paper, name, family, below, unit, hits)
        for name in names
        for below in figure.below
        for family in figure.families
        for unit in UNITS
    ]


def cost_panel(figure: Figure, paper: Paper, data: str, family: str, below: float, unit: str, hits: pl.DataFrame) -> Panel:
    """Draw the median cost to the target against K, one line for each gamma, with the best of each baseline as a dashed line."""
    mine = hits.filter(~pl.col("fresh"), pl.col("data") == data, pl.col("family") == family, pl.col("below") == below)
    costs = medians(mine, figure.price, unit).filter(pl.col("cost").is_finite()).sort("gamma", "inner")
    gammas = [f"γ = {gamma:g}" for gamma in sorted(mine["gamma"].unique())]
    rows = [{"K": row["inner"], "cost": row["cost"], "gamma": f"γ = {row['gamma']:g}"} for row in costs.iter_rows(named=True)]
    lines = []
    for name in figure.baselines:
        entry = tuned(hits, [name], data, below, figure.price, "exchanges")
        if math.isfinite(entry.tuned):
            lines.append({"cost": entry.tuned, "text": f"{paper.family(name, data).spec.title}: {number(entry.tuned)}"})
    ticks = log_ticks([row["cost"] for row in rows + lines])
    y = alt.Y("cost:Q", title=None, scale=alt.Scale(type="log", nice=False, padding=12))
    y = y.axis(labelExpr=LOG_LABELS, **({"values": ticks} if ticks else {}))
    color = alt.Color("gamma:N", scale=alt.Scale(domain=gammas), legend=LEGEND)
    tip = [alt.Tooltip("gamma:N", title="γ", format="", formatType="toString"), "K:Q", alt.Tooltip("cost:Q", format=".4~g")]
    common = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("K:Q", title="K, steps with a cohort", axis=alt.Axis(tickMinStep=1, format="d")), y=y, color=color
    )
    marks = [common.mark_line(strokeWidth=2), common.mark_point(filled=True, size=45, opacity=1).encode(tooltip=tip)]
    title = f"{data}, ε = {below:g}, {paper.family(family, data).spec.title.split(', ')[-1]}: {COUNTS[unit]}"
    return Panel(title, titled([*marks, *rules(lines, "cost")], title))


def convergence_panel(figure: Figure, data: str, targets: list[float], curves: pl.DataFrame, floors: dict[str, float]) -> Panel:
    """Draw the median distance against exchanges with a band between the quartiles, one line for each of the figure's lines."""
    rows = [row for line in figure.lines for row in curve_rows(line, data, curves)]
    aims = [{"median": below, "text": f"ε = {below:g}"} for below in targets]
    errors = [{"median": floor, "text": label} for label, floor in floors.items()]
    ticks = log_ticks([row["median"] for row in rows])
    y = alt.Y("median:Q", title=None, scale=alt.Scale(type="log", nice=False, padding=6))
    y = y.axis(labelExpr=LOG_LABELS, **({"values": ticks} if ticks else {}))
    labels = [line.label for line in figure.lines]
    color = alt.Color("label:N", scale=alt.Scale(domain=labels), legend=LEGEND)
    common = alt.Chart(alt.Data(values=rows)).encode(x=alt.X("exchanges:Q", title="exchanges"), color=color)
    band = common.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title=None), y2="high:Q")
    line = common.mark_line(strokeWidth=2).encode(y=y)
    marks = [band, line, *rules(aims, "median"), *rules(errors, "median", "0.8 * width")]
    return Panel(data, titled(marks, f"{data}: squared distance ‖x − x*‖²"))


def curve_rows(line: Line, data: str, curves: pl.DataFrame) -> list[dict]:
    """Return at most POINTS points of a line; what a log axis cannot show is left out."""
    where = {name.removeprefix("algorithm."): value for name, value in (line.where or {}).items()}
    mine = curves.filter(
        pl.col("data") == data, pl.col("family") == line.family, *(pl.col(name) == value for name, value in where.items())
    )
    mine = mine.filter(pl.all_horizontal(pl.col("low", "median", "high").is_between(1e-30, 1e30)))
    kept = np.unique(np.linspace(0, len(mine) - 1, POINTS).round().astype(int)) if len(mine) > POINTS else range(len(mine))
    shown = mine[list(kept)].select("exchanges", "low", "median", "high").iter_rows(named=True)
    return [{"label": line.label, **{name: float(f"{value:.5g}") for name, value in row.items()}} for row in shown]


def rules(rows: list[dict], field: str, at: str = "width") -> list[alt.Chart]:
    """Return a dashed line for each of `rows`, whose text ends `at` an expression of the width."""
    if not rows:
        return []
    base = alt.Chart(alt.Data(values=rows)).encode(y=alt.Y(f"{field}:Q"))
    text = base.encode(x=alt.value(alt.ExprRef(at)), text="text:N")
    return [base.mark_rule(style="target"), *(text.mark_text(style=[style, "label"]) for style in ("halo", "target"))]


def titled(layers: list[alt.Chart], title: str) -> alt.TopLevelMixin:
    """Return one chart of all layers."""
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=alt.TitleParams(title, anchor="start"))
