"""Curves of a metric against communication cost."""

import json
import math

import altair as alt

from turnout.prices import Price
from turnout.report.points import points
from turnout.report.result import Result, distinct
from turnout.report.theme import DASHES, LIGHT, config
from turnout.report.words import METRICS, axis_title, short

LINEAR = ("accuracy", "value")
"""Metrics on a linear axis: an error rate is read as a share, and a loss may be negative."""

WIDTH, HEIGHT = 640, 360
SWITCH_BUTTONS = 5
COLUMNS = 3
"""Columns of the legend; the page takes fewer where it is narrow."""

# Counts stay as they are up to 9,999 and then become 10k, 2.5M, 1.2G; small values of a log axis become 1e-4.
COST_LABELS = "abs(datum.value) < 1e4 ? format(datum.value, '~g') : format(datum.value, '~s')"
LOG_LABELS = "!datum.label ? '' : datum.value < 1e-3 ? format(datum.value, '.0e') : format(datum.value, '~g')"


def curves(results: list[Result], metric: str, prices: list[Price]) -> alt.TopLevelMixin:
    """Draw `metric` against cumulative cost, one line per result, with a switch between the prices."""
    prices = list(prices)
    results = distinct(results)
    log = metric not in LINEAR
    drawn = points(results, metric, prices, log)
    titles = json.dumps([axis_title(price) for price in prices])
    base = alt.Chart(alt.Data(values=drawn.rows)).transform_calculate(cost="datum['cost' + price]")
    lines = _lines(base, metric, [r.label for r in results], powers(drawn.rows) if log else None)
    chart = alt.layer(*lines, *_target(results, metric))
    title = alt.TitleParams(
        text=alt.ExprRef(f"{titles}[price]"), subtitle=drawn.notes, orient="bottom", anchor="middle", offset=8,
        subtitlePadding=6,
    )  # fmt: skip
    columns = alt.param(name="columns", value=COLUMNS)
    return (
        chart.add_params(_switch(prices), columns).properties(width=WIDTH, height=HEIGHT, title=title).configure(**config(LIGHT))
    )


def figure(results: list[Result], metric: str, price: Price) -> alt.TopLevelMixin:
    """Draw `metric` against cumulative cost under one price."""
    return curves(results, metric, [price])


def _switch(prices: list[Price]) -> alt.Parameter:
    """Return the parameter `price`, the number of the price shown; one price needs no control."""
    labels = [price.label for price in prices]
    if len(prices) == 1:
        return alt.param(name="price", value=0)
    control = alt.binding_radio if len(prices) <= SWITCH_BUTTONS else alt.binding_select
    return alt.param(name="price", value=0, bind=control(options=list(range(len(prices))), labels=labels, name="Price "))


def powers(rows: list[dict]) -> list[float]:
    """Return the powers of ten that span the metric of `rows`, the ticks of its log axis."""
    values = [row["metric"] for row in rows] or [1.0]
    return [10.0**k for k in range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)]


def _lines(base: alt.Chart, metric: str, labels: list[str], ticks: list[float] | None) -> list[alt.Chart]:
    """Return the lines, the marks where the target was met, and points that show their numbers under the pointer."""
    scale = alt.Scale(type="log", nice=False) if ticks else alt.Scale(zero=False)
    axis = alt.Axis(
        title=METRICS[metric], titleAngle=0, titleAlign="left", titleAnchor="end", titleX=0, titleY=-10,
        titleBaseline="bottom", tickCount=6, values=ticks or alt.Undefined, labelExpr=LOG_LABELS if ticks else alt.Undefined,
    )  # fmt: skip
    ncolors = len(LIGHT["lines"])
    dashes = [DASHES[k // ncolors % len(DASHES)] for k in range(len(labels))]
    legend = alt.Legend(title=None, orient="top", offset=24, columns=alt.ExprRef("columns"))
    picked = alt.selection_point(name="picked", fields=["label"], bind="legend")
    near = alt.selection_point(name="near", nearest=True, on="pointerover", clear="pointerout", empty=False)
    common = base.encode(
        x=alt.X("cost:Q", title=None, axis=alt.Axis(labelExpr=COST_LABELS, tickCount=6)),
        y=alt.Y("metric:Q", scale=scale, axis=axis),
        color=alt.Color("label:N", scale=alt.Scale(domain=labels), legend=legend),
    )
    faded = alt.when(picked).then(alt.value(1)).otherwise(alt.value(0.12))
    line = common.mark_line(strokeWidth=2.2, strokeJoin="round").encode(
        strokeDash=alt.StrokeDash("label:N", scale=alt.Scale(domain=labels, range=dashes), legend=legend),
        order=alt.Order("round:Q"),
        opacity=faded,
    )
    hits = common.mark_point(style="hit").transform_filter("datum.hit").encode(opacity=faded)
    hover = common.mark_point(filled=True, size=70).encode(
        opacity=alt.when(near).then(alt.value(1)).otherwise(alt.value(0)),
        tooltip=[
            alt.Tooltip("label:N", title="run"),
            alt.Tooltip("round:Q", format=","),
            alt.Tooltip("cost:Q", format=",.6~g"),
            alt.Tooltip("metric:Q", title=short(metric), format=".4~g"),
        ],
    )
    return [line.add_params(picked), hits, hover.add_params(near)]


def _target(results: list[Result], metric: str) -> list[alt.Chart]:
    """Return a dashed rule and its label for each target on `metric`."""
    levels = sorted({result.target.below for result in results if result.target and result.target.metric == metric})
    if not levels:
        return []
    rows = [{"below": below, "text": f"target {below:g}"} for below in levels]
    base = alt.Chart(alt.Data(values=rows)).encode(y=alt.Y("below:Q"))
    return [base.mark_rule(style="target"), base.mark_text(style="target-label").encode(x=alt.value("width"), text="text:N")]
