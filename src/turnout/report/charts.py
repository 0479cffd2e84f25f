"""Curves of a metric against communication cost, as Vega-Lite specifications."""

import json
from typing import Any

from turnout.accounting.prices import Price
from turnout.report.downsample import Points, log_ticks, points
from turnout.report.format import COST_LABELS, LOG_LABELS, axis_title, is_linear, short, title_of
from turnout.report.lines import SCHEMA
from turnout.report.loaded_run import Result
from turnout.report.theme import LIGHT, config

WIDTH, HEIGHT = 640, 360
SWITCH_BUTTONS = 5
HOVER = "hover"
"""The name of the layer that follows the pointer."""

COSTS = {"labelExpr": COST_LABELS, "tickCount": 6}
"""The axis of costs."""


def curves(result: Result, metric: str, prices: list[Price]) -> dict[str, Any]:
    """Return the chart of `metric` against cumulative cost, with a switch between the prices.

    Args:
        result: A finished run.
        metric: Name of the metric.
        prices: Prices of the events.
    """
    prices = list(prices)
    drawn = points(result, metric, prices, not is_linear(metric))
    levels = [result.target.below] if result.target and result.target.metric == metric else []
    titles = json.dumps([axis_title(price) for price in prices])
    title = {
        "text": {"expr": f"{titles}[price]"}, "subtitle": drawn.notes, "orient": "bottom", "anchor": "middle", "offset": 8,
        "subtitlePadding": 6,
    }  # fmt: skip
    near = {"type": "point", "nearest": True, "on": "pointerover", "clear": "pointerout"}
    return {
        **framed([*_lines(drawn, metric, levels), *target_rules(levels), *floor_rules(drawn.floors)]),
        "datasets": {"points": drawn.rows},
        "params": [{"name": "near", "select": near, "views": [HOVER]}, _switch(prices)],
        "title": title,
    }


def framed(layers: list[dict]) -> dict[str, Any]:
    """Return the chart of `layers` in the size and the look of all charts of a report."""
    return {"$schema": SCHEMA, "width": WIDTH, "height": HEIGHT, "layer": layers, "config": config(LIGHT)}


def figure(result: Result, metric: str, price: Price) -> dict[str, Any]:
    """Return the chart of `metric` against cumulative cost under one price.

    Args:
        result: A finished run.
        metric: Name of the metric.
        price: The price.
    """
    return curves(result, metric, [price])


def _switch(prices: list[Price]) -> dict[str, Any]:
    """Return the parameter `price`, the index of the price shown, with a control if there are several prices."""
    if len(prices) == 1:
        return {"name": "price", "value": 0}
    control = "radio" if len(prices) <= SWITCH_BUTTONS else "select"
    labels = [price.label for price in prices]
    return {
        "name": "price",
        "value": 0,
        "bind": {"input": control, "options": list(range(len(prices))), "labels": labels, "name": "Price "},
    }


def _lines(drawn: Points, metric: str, levels: list[float]) -> list[dict]:
    """Return the line, the bounds, the mark where the target was met, and the points with tooltips."""
    shared = {
        "x": {**quantity("cost"), "title": None, "axis": COSTS},
        "y": _metric_axis(drawn, metric, levels),
        "color": {"field": "label", "type": "nominal", "legend": None},
    }
    order = {"order": quantity("round")}

    def layer(mark: dict, *filters: str, **encoding: Any) -> dict:
        transform = [{"calculate": "datum['cost' + price]", "as": "cost"}, *({"filter": text} for text in filters)]
        return {"data": {"name": "points"}, "transform": transform, "mark": mark, "encoding": {**shared, **encoding}}

    marks = [layer({"type": "line", "strokeWidth": 2.2, "strokeJoin": "round"}, **order)]
    for name in ("bound", "lower"):
        if any(name in row for row in drawn.rows):
            marks.append(layer({"type": "line", "style": name}, f"isValid(datum.{name})", y=quantity(name), **order))
    if any(row["hit"] for row in drawn.rows):
        marks.append(layer({"type": "point", "style": "hit"}, "datum.hit"))
    return [*marks, {**layer({"type": "point", "filled": True, "size": 70}, **_hover(metric)), "name": HOVER}]


def quantity(field: str) -> dict[str, Any]:
    """Return the encoding of a field of numbers."""
    return {"field": field, "type": "quantitative"}


def upright(title: str) -> dict[str, Any]:
    """Return a vertical axis with its title above it."""
    return {
        "title": title, "titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleX": 0, "titleY": -10,
        "titleBaseline": "bottom",
    }  # fmt: skip


def log_axis(axis: dict, heights: list[float]) -> dict[str, Any]:
    """Return the scale and the axis of `heights` on a log axis, with round numbers for ticks."""
    ticks = log_ticks(heights)
    labelled = {**axis, "labelExpr": LOG_LABELS, **({"values": ticks} if ticks else {})}
    return {"scale": {"type": "log", "nice": False, "padding": 6}, "axis": labelled}


def _metric_axis(drawn: Points, metric: str, levels: list[float]) -> dict[str, Any]:
    """Return the vertical axis."""
    axis = {**upright(title_of(metric)), "tickCount": 6}
    if is_linear(metric):
        return {**quantity("metric"), "scale": {"zero": False, "padding": 6}, "axis": axis}
    return {**quantity("metric"), **log_axis(axis, drawn.heights() + levels)}


def _hover(metric: str) -> dict[str, Any]:
    """Return the encoding of a point that follows the pointer and shows its numbers."""
    return {
        "opacity": {"condition": [{"param": "near", "value": 1, "empty": False}], "value": 0},
        "tooltip": [
            # Vega-Lite reads the nearest point correctly for formatted text only.
            {"field": "label", "type": "nominal", "title": "run", "format": "", "formatType": "toString"},
            {**quantity("round"), "format": ","},
            {**quantity("cost"), "format": ",.6~g"},
            {**quantity("metric"), "title": short(metric), "format": ".4~g"},
        ],
    }


def target_rules(levels: list[float]) -> list[dict]:
    """Return a dashed rule and its label for each level of a target."""
    rows = [{"below": below, "text": f"target {below:g}"} for below in levels]
    return _rules(rows, "below", "target", "label", "width")


def floor_rules(floors: list[dict]) -> list[dict]:
    """Return a dotted rule and its label for each sampling error of one cohort."""
    return _rules(floors, "floor", "floor", "note", {"expr": "width / 2"})


def _rules(rows: list[dict], field: str, style: str, label: str, x: Any) -> list[dict]:
    """Return a rule for each row at the height `field`, and its text at `x` above it; none without rows."""
    if not rows:
        return []
    data, y = {"values": rows}, {"y": quantity(field)}
    text = {**y, "x": {"value": x}, "text": {"field": "text", "type": "nominal"}}
    texts = [{"data": data, "mark": {"type": "text", "style": [each, label]}, "encoding": text} for each in ("halo", style)]
    return [{"data": data, "mark": {"type": "rule", "style": style}, "encoding": y}, *texts]
