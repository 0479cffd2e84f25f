"""Curves of a metric against communication cost."""

import json

import altair as alt

from turnout.accounting.prices import Price
from turnout.report.downsample import Points, log_ticks, points
from turnout.report.format import COST_LABELS, LINEAR, LOG_LABELS, METRICS, axis_title, short
from turnout.report.loaded_run import Result
from turnout.report.theme import LIGHT, config

WIDTH, HEIGHT = 640, 360
SWITCH_BUTTONS = 5


def curves(result: Result, metric: str, prices: list[Price]) -> alt.TopLevelMixin:
    """Draw `metric` against cumulative cost, with a switch between the prices.

    Args:
        result: A finished run.
        metric: Name of the metric.
        prices: Prices of the events.
    """
    prices = list(prices)
    drawn = points(result, metric, prices, metric not in LINEAR)
    levels = [result.target.below] if result.target and result.target.metric == metric else []
    titles = json.dumps([axis_title(price) for price in prices])
    title = alt.TitleParams(
        text=alt.ExprRef(f"{titles}[price]"), subtitle=drawn.notes, orient="bottom", anchor="middle", offset=8,
        subtitlePadding=6,
    )  # fmt: skip
    return (
        alt.layer(*_lines(drawn, metric, levels), *target_rules(levels), *floor_rules(drawn.floors))
        .add_params(_switch(prices))
        .properties(width=WIDTH, height=HEIGHT, title=title)
        .configure(**config(LIGHT))
    )


def figure(result: Result, metric: str, price: Price) -> alt.TopLevelMixin:
    """Draw `metric` against cumulative cost under one price.

    Args:
        result: A finished run.
        metric: Name of the metric.
        price: The price.
    """
    return curves(result, metric, [price])


def _switch(prices: list[Price]) -> alt.Parameter:
    """Return the parameter `price`, the index of the price shown, with a control if there are several prices."""
    labels = [price.label for price in prices]
    if len(prices) == 1:
        return alt.param(name="price", value=0)
    control = alt.binding_radio if len(prices) <= SWITCH_BUTTONS else alt.binding_select
    return alt.param(name="price", value=0, bind=control(options=list(range(len(prices))), labels=labels, name="Price "))


def _lines(drawn: Points, metric: str, levels: list[float]) -> list[alt.Chart]:
    """Return the line, the bounds, the mark where the target was met, and the points with tooltips."""
    common = (
        alt.Chart(alt.Data(values=drawn.rows))
        .transform_calculate(cost="datum['cost' + price]")
        .encode(
            x=alt.X("cost:Q", title=None, axis=alt.Axis(labelExpr=COST_LABELS, tickCount=6)),
            y=_metric_axis(drawn, metric, levels),
            color=alt.Color("label:N", legend=None),
        )
    )
    marks = [common.mark_line(strokeWidth=2.2, strokeJoin="round").encode(order=alt.Order("round:Q"))]
    for name in ("bound", "lower"):
        if any(name in row for row in drawn.rows):
            bound = common.mark_line(style=name).transform_filter(f"isValid(datum.{name})")
            marks.append(bound.encode(y=alt.Y(f"{name}:Q"), order=alt.Order("round:Q")))
    if any(row["hit"] for row in drawn.rows):
        marks.append(common.mark_point(style="hit").transform_filter("datum.hit"))
    return [*marks, _hover(common, metric)]


def _metric_axis(drawn: Points, metric: str, levels: list[float]) -> alt.Y:
    """Return the vertical axis; a log axis has round numbers for ticks."""
    axis = alt.Axis(
        title=METRICS[metric], titleAngle=0, titleAlign="left", titleAnchor="end", titleX=0, titleY=-10,
        titleBaseline="bottom", tickCount=6,
    )  # fmt: skip
    if metric in LINEAR:
        return alt.Y("metric:Q", scale=alt.Scale(zero=False, padding=6), axis=axis)
    axis.labelExpr = LOG_LABELS
    ticks = log_ticks(drawn.heights() + levels)
    if ticks:
        axis.values = ticks
    return alt.Y("metric:Q", scale=alt.Scale(type="log", nice=False, padding=6), axis=axis)


def _hover(common: alt.Chart, metric: str) -> alt.Chart:
    """Return a point that follows the pointer and shows its numbers."""
    near = alt.selection_point(name="near", nearest=True, on="pointerover", clear="pointerout", empty=False)
    # Vega-Lite reads the nearest point correctly for formatted text only.
    label = alt.Tooltip("label:N", title="run", format="", formatType="toString")
    return (
        common.mark_point(filled=True, size=70)
        .encode(
            opacity=alt.when(near).then(alt.value(1)).otherwise(alt.value(0)),
            tooltip=[
                label,
                alt.Tooltip("round:Q", format=","),
                alt.Tooltip("cost:Q", format=",.6~g"),
                alt.Tooltip("metric:Q", title=short(metric), format=".4~g"),
            ],
        )
        .add_params(near)
    )


def target_rules(levels: list[float]) -> list[alt.Chart]:
    """Return a dashed rule and its label for each level of a target."""
    if not levels:
        return []
    rows = [{"below": below, "text": f"target {below:g}"} for below in levels]
    base = alt.Chart(alt.Data(values=rows)).encode(y=alt.Y("below:Q"))
    text = base.encode(x=alt.value("width"), text="text:N")
    return [base.mark_rule(style="target"), *(text.mark_text(style=[style, "label"]) for style in ("halo", "target"))]


def floor_rules(floors: list[dict]) -> list[alt.Chart]:
    """Return a dotted rule and its label for each sampling error of one cohort."""
    if not floors:
        return []
    base = alt.Chart(alt.Data(values=floors)).encode(y=alt.Y("floor:Q"))
    text = base.encode(x=alt.value(alt.ExprRef("width / 2")), text="text:N")
    return [base.mark_rule(style="floor"), *(text.mark_text(style=[style, "note"]) for style in ("halo", "floor"))]
