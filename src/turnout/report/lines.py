"""Charts of lines with bands: the numbers of each line, and the chart of several."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from turnout.report.downsample import LARGEST, log_ticks
from turnout.report.format import COST_LABELS, LOG_LABELS
from turnout.report.theme import DASHES, LIGHT, config

POINTS = 120
"""The most points of a line."""

WIDTH, HEIGHT = 400, 260
ROOM, LETTER = 50, 7
"""The width of a vertical axis or of the symbol of a legend, and about that of a letter, in pixels."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

LEVEL = [10, 4]
"""The dashes of a level line."""

Scale = Literal["log", "linear"]

Style = tuple[int, list[int]]
"""The number of a colour, and dashes."""

Run = tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]
"""The horizontal and the vertical values along a run; the former do not decrease."""


@dataclass(frozen=True)
class Line:
    """A line and its band; what cannot be drawn is None.

    Args:
        label: Its name.
        x: The horizontal values: numbers, or names.
        low: The lower bound of the band at each of them.
        median: The line.
        high: The upper bound of the band.
        level: Whether it is a line of comparison, the same everywhere.
    """

    label: str
    x: list
    low: list[float | None]
    median: list[float | None]
    high: list[float | None]
    level: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return all(value is None for value in self.median)

    def rows(self) -> list[dict]:
        """Return the points as records."""
        columns = zip(self.x, self.low, self.median, self.high, strict=True)
        return [{"label": self.label, "x": x, "low": low, "median": y, "high": high} for x, low, y, high in columns]


@dataclass(frozen=True)
class Drawing:
    """What a chart shows.

    Args:
        title: Its title.
        x: The name of the horizontal axis.
        y: The name of the vertical axis.
        lines: Its lines.
        scale: The vertical scale.
        across: The horizontal scale; "point" is for names.
        dots: Whether the points of a line are marked.
    """

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    scale: Scale
    across: Literal["log", "linear", "point"] = "linear"
    dots: bool = False

    @property
    def words(self) -> str:
        """What is drawn in a sentence, for those who do not see it."""
        ends = [
            f"{line.label} ends at {drawn[-1]:.3g}" for line in self.lines if (drawn := [y for y in line.median if y is not None])
        ]
        return f"{self.title}: {self.y} against {self.x}. {'; '.join(ends)}."


def banded(runs: Sequence[Run], limit: int = POINTS) -> dict[str, np.ndarray]:
    """Return the median and the quartiles over `runs` of the last value that each had seen at some `x`, as far as all of them go.

    Medians and quartiles are values that occur, of two in the middle the larger; NaN counts as infinite.

    Args:
        runs: The runs.
        limit: The most values of `x`, which are evenly spaced where there would be more.
    """
    first, last = max(x[0] for x, _ in runs), min(x[-1] for x, _ in runs)
    points = np.unique(np.concatenate([x for x, _ in runs]))
    points = points[(points >= first) & (points <= last)]
    if len(points) > limit:
        points = np.linspace(first, last, limit)
    values = np.array(
        [np.nan_to_num(y, nan=np.inf, posinf=np.inf)[np.searchsorted(x, points, side="right") - 1] for x, y in runs]
    )
    parts = (("low", 0.25, "lower"), ("median", 0.5, "higher"), ("high", 0.75, "higher"))
    return {"x": points, **{name: np.quantile(values, share, axis=0, method=method) for name, share, method in parts}}


def visible(lines: Sequence[tuple[str, dict[str, Any], bool]], scale: Scale) -> tuple[Line, ...]:
    """Return lines, each given as its label, its columns and whether it is level, as they can be drawn on a `scale`.

    A median that is not finite, or on a log scale not positive, breaks the line; the band ends at the edge of the chart there.
    """
    smallest = 1 / LARGEST if scale == "log" else -LARGEST
    bounds = np.concatenate([np.ravel(columns[name]) for _, columns, _ in lines for name in ("low", "median", "high")] or [[]])
    bounds = bounds[(bounds > smallest) & (bounds < LARGEST)]
    least, most = (bounds.min(), bounds.max()) if bounds.size else (1.0, 1.0)
    shown = []
    for label, columns, level in lines:
        median = np.asarray(columns["median"], float)
        drawn = (median > smallest) & (median < LARGEST)
        parts = {name: np.clip(np.asarray(columns[name], float), least, most) for name in ("low", "median", "high")}
        numbers = {name: [_short(y) if ok else None for y, ok in zip(part, drawn, strict=True)] for name, part in parts.items()}
        x = [value if isinstance(value, str) else _short(value) for value in columns["x"]]
        shown.append(Line(label, x, **numbers, level=level))
    return tuple(line for line in shown if not line.empty)


def styles(drawings: Sequence[Drawing]) -> dict[str, Style]:
    """Return the number of the colour and the dashes of each label in `drawings`."""
    level: dict[str, bool] = {}
    for line in (line for drawing in drawings for line in drawing.lines):
        level[line.label] = line.level or level.get(line.label, False)
    colours = len(LIGHT["lines"])
    return {
        label: (k % colours, LEVEL if level[label] else DASHES[k % len(DASHES)]) for k, label in enumerate(dict.fromkeys(level))
    }


def chart(drawing: Drawing, styles: dict[str, Style], legend: dict | None = None) -> dict[str, Any]:
    """Return the Vega-Lite specification of `drawing`, of which the data are named "points".

    Args:
        drawing: What it shows.
        styles: The colour and the dashes of each label.
        legend: The options of its legend; default: it has none.
    """
    names = list(styles)
    color = {"field": "label", "type": "nominal", "scale": {"domain": names}, "legend": legend}
    dashes = {**color, "scale": {"domain": names, "range": [dashes for _, dashes in styles.values()]}}
    line = {"y": _axis("median", drawing), "strokeDash": dashes}
    layers = [
        {"mark": {"type": "area", "opacity": 0.15}, "encoding": {"y": _axis("low", drawing), "y2": {"field": "high"}}},
        {"mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round", "order": False}, "encoding": line},
    ]
    if drawing.dots:
        dotted = {"field": "label", "oneOf": [line.label for line in drawing.lines if not line.level]}
        mark = {"type": "point", "filled": True, "size": 40, "opacity": 1}
        layers.append({"mark": mark, "encoding": {"y": _axis("median", drawing)}, "transform": [{"filter": dotted}]})
    shared = {"x": _across(drawing), "color": color}
    return {"width": WIDTH, "height": HEIGHT, "data": {"name": "points"}, "encoding": shared, "layer": layers}


def picture(drawings: Sequence[Drawing]) -> dict[str, Any]:
    """Return the Vega-Lite specification of one picture of all `drawings`, two in a row, with one legend."""
    style, columns = styles(drawings), min(2, len(drawings))
    wide = columns * (WIDTH + ROOM)
    entry = LETTER * max(map(len, style)) + ROOM
    legend = {
        "title": None,
        "orient": "top",
        "symbolType": "stroke",
        "symbolOpacity": 1,
        "columns": max(1, wide // entry),
        "labelLimit": wide - ROOM,
    }
    charts = [
        {
            **chart(drawing, style, legend),
            "data": {"values": [row for line in drawing.lines for row in line.rows()]},
            "title": {
                "text": wrap(drawing.title, WIDTH // LETTER), "subtitle": wrap(drawing.y, WIDTH // LETTER), "anchor": "start",
                "frame": "group",
            },
        }
        for drawing in drawings
    ]  # fmt: skip
    return {"$schema": SCHEMA, "concat": charts, "columns": columns, "config": config(LIGHT)}


def _across(drawing: Drawing) -> dict[str, Any]:
    """Return the horizontal axis; names stay in their order."""
    if drawing.across == "point":
        return {"field": "x", "type": "nominal", "title": drawing.x, "sort": None, "axis": {"labelAngle": 0}}
    axis: dict[str, Any] = {"labelExpr": COST_LABELS, "tickCount": 5, "labelOverlap": "greedy"}
    if drawing.dots:
        axis["values"] = sorted({x for line in drawing.lines for x in line.x})
    return {
        "field": "x",
        "type": "quantitative",
        "title": drawing.x,
        "scale": _scale(drawing.across, 6 * drawing.dots),
        "axis": axis,
    }


def _scale(kind: Scale, padding: int) -> dict[str, Any]:
    """Return a scale that fits the values; a log scale has no zero to leave out."""
    return {"type": kind, "nice": False, "padding": padding, **({} if kind == "log" else {"zero": False})}


def _axis(field: str, drawing: Drawing) -> dict[str, Any]:
    """Return the vertical axis, whose name is in the title; a log axis has round numbers for ticks."""
    axis: dict[str, Any] = {"tickCount": 6}
    if drawing.scale == "log":
        ticks = log_ticks([y for line in drawing.lines for column in (line.low, line.high) for y in column if y is not None])
        axis = {"labelExpr": LOG_LABELS, **({"values": ticks} if ticks else {})}
    return {"field": field, "type": "quantitative", "title": None, "scale": _scale(drawing.scale, 6), "axis": axis}


def _short(value: Any) -> float:
    """Keep five significant digits, more than a screen shows."""
    return float(f"{value:.5g}")
