"""Curves of a metric against communication cost, as Vega-Lite specifications."""

import json
from typing import Any

from turnout.accounting.prices import Price
from turnout.report.downsample import Points, log_ticks, points
from turnout.report.format import COST_LABELS, LINEAR, LOG_LABELS, METRICS, axis_title, short
from turnout.report.lines import SCHEMA
from turnout.report.loaded_run import Result
from turnout.report.theme import LIGHT, config

WIDTH, HEIGHT = 640, 360
SWITCH_BUTTONS = 5

Spec = dict[str, Any]
"""A specification in Vega-Lite, or a part of one."""

ABOVE = {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleX": 0, "titleY": -10, "titleBaseline": "bottom"}
"""Where the title of a vertical axis is."""


def curves(result: Result, metric: str, prices: list[Price]) -> Spec:
    """Draw `metric` against cumulative cost, with a switch between the prices.

    Args:
        result: A finished run.
        metric: Name of the metric.
        prices: Prices of the events.
    """
    drawn = points(result, metric, prices, metric not in LINEAR)
    levels = [result.target.below] if result.target and result.target.metric == metric else []
    titles = json.dumps([axis_title(price) for price in prices])
    title = {
        "text": {"expr": f"{titles}[price]"}, "subtitle": drawn.notes, "orient": "bottom", "anchor": "middle", "offset": 8,
        "subtitlePadding": 6,
    }  # fmt: skip
    return {
        **whole([*_lines(drawn, metric, levels), *target_rules(levels), *floor_rules(drawn.floors)]),
        "data": {"values": drawn.rows},
        "params": [_switch(prices)],
        "title": title,
    }


def whole(layers: list[Spec]) -> Spec:
    """Return a specification of some layers."""
    return {"$schema": SCHEMA, "width": WIDTH, "height": HEIGHT, "layer": layers, "config": config(LIGHT)}


def _switch(prices: list[Price]) -> Spec:
    """Return the parameter `price`, the index of the price shown, with a control if there are several prices."""
    if len(prices) == 1:
        return {"name": "price", "value": 0}
    control = "radio" if len(prices) <= SWITCH_BUTTONS else "select"
    labels = [price.label for price in prices]
    return {
        "name": "price",
        "value": 0,
        "bind": {"input": control, "options": [*range(len(prices))], "labels": labels, "name": "Price "},
    }


def _lines(drawn: Points, metric: str, levels: list[float]) -> list[Spec]:
    """Return the line, the bounds, the mark where the target was met, and the points with tooltips."""
    cost = {"calculate": "datum['cost' + price]", "as": "cost"}
    order = {"field": "round", "type": "quantitative"}
    common = {
        "x": {
            "field": "cost", "type": "quantitative", "title": None, "axis": {"labelExpr": COST_LABELS, "tickCount": 6},
        },
        "y": _metric_axis(drawn, metric, levels),
        "color": {"field": "label", "type": "nominal", "legend": None},
    }  # fmt: skip

    def layer(mark: Spec, *filters: str, **further) -> Spec:
        transforms = [cost, *({"filter": condition} for condition in filters)]
        return {"mark": mark, "encoding": {**common, **further}, "transform": transforms}

    marks = [layer({"type": "line", "strokeWidth": 2.2, "strokeJoin": "round"}, order=order)]
    for name in ("bound", "lower"):
        if any(name in row for row in drawn.rows):
            bound = {"y": {"field": name, "type": "quantitative"}, "order": order}
            marks.append(layer({"type": "line", "style": name}, f"isValid(datum.{name})", **bound))
    if any(row["hit"] for row in drawn.rows):
        marks.append(layer({"type": "point", "style": "hit"}, "datum.hit"))
    return [*marks, _hover(layer, metric)]


def _metric_axis(drawn: Points, metric: str, levels: list[float]) -> Spec:
    """Return the vertical axis; a log axis has round numbers for ticks."""
    axis = {"title": METRICS[metric], **ABOVE, "tickCount": 6}
    channel = {"field": "metric", "type": "quantitative", "axis": axis}
    if metric in LINEAR:
        return {**channel, "scale": {"zero": False, "padding": 6}}
    axis["labelExpr"] = LOG_LABELS
    ticks = log_ticks(drawn.heights() + levels)
    if ticks:
        axis["values"] = ticks
    return {**channel, "scale": {"type": "log", "nice": False, "padding": 6}}


def _hover(layer, metric: str) -> Spec:
    """Return a point that follows the pointer and shows its numbers."""
    near = {
        "name": "near",
        "select": {"type": "point", "nearest": True, "on": "pointerover", "clear": "pointerout"},
    }  # fmt: skip
    numbers = (("round", ",", {}), ("cost", ",.6~g", {}), ("metric", ".4~g", {"title": short(metric)}))
    tooltip = [
        # Vega-Lite reads the nearest point correctly for formatted text only.
        {"field": "label", "type": "nominal", "title": "run", "format": "", "formatType": "toString"},
        *({"field": name, "type": "quantitative", "format": form, **further} for name, form, further in numbers),
    ]
    opacity = {"condition": [{"param": "near", "value": 1, "empty": False}], "value": 0}
    return {
        **layer({"type": "point", "filled": True, "size": 70}, opacity=opacity, tooltip=tooltip),
        "params": [near],
    }


def target_rules(levels: list[float]) -> list[Spec]:
    """Return a dashed rule and its label for each level of a target."""
    rows = [{"below": below, "text": f"target {below:g}"} for below in levels]
    return _rules(rows, "below", "target", "label", "width")


def floor_rules(floors: list[dict]) -> list[Spec]:
    """Return a dotted rule and its label for each sampling error of one cohort."""
    return _rules(floors, "floor", "floor", "note", {"expr": "width / 2"})


def _rules(rows: list[dict], field: str, style: str, place: str, x) -> list[Spec]:
    """Return a rule at the height `field` of each row in a style, and its text at x in the style of a `place`."""
    if not rows:
        return []
    data, y = {"values": rows}, {"field": field, "type": "quantitative"}
    text = {"x": {"value": x}, "y": y, "text": {"field": "text", "type": "nominal"}}
    return [
        {"data": data, "mark": {"type": "rule", "style": style}, "encoding": {"y": y}},
        *({"data": data, "mark": {"type": "text", "style": [one, place]}, "encoding": text} for one in ("halo", style)),
    ]
