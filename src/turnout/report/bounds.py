"""A figure of theoretical bounds."""

import altair as alt
import numpy as np

from turnout.report.charts import HEIGHT, WIDTH, floor_rules, target_rules
from turnout.report.downsample import log_ticks
from turnout.report.format import COST_LABELS, LOG_LABELS
from turnout.report.theme import LIGHT, config


def bound_chart(
    rounds: np.ndarray, curves: dict[str, np.ndarray], what: str, floor: float | None = None, epsilon: float | None = None
) -> alt.TopLevelMixin:
    """Draw the bounds `curves`, by label, against `rounds`, with the target `epsilon` and one cohort's sampling error `floor`.

    Args:
        rounds: Numbers of rounds.
        curves: Bound after each of them, by label.
        what: What is bounded.
        floor: Sampling error of one cohort, if known.
        epsilon: Target, if there is one.
    """
    floors = [] if not floor else [{"floor": floor, "text": "sampling error of one cohort"}]
    levels = [] if epsilon is None else [epsilon]
    rows = [
        {"label": label, "round": int(t), "bound": float(value)}
        for label, values in curves.items()
        for t, value in zip(rounds, values, strict=True)
        if value > 0
    ]
    axis = alt.Axis(
        title=f"bound on the {what}", titleAngle=0, titleAlign="left", titleAnchor="end", titleX=0,
        titleY=-10, titleBaseline="bottom", labelExpr=LOG_LABELS,
    )  # fmt: skip
    axis.values = log_ticks([row["bound"] for row in rows] + levels + [row["floor"] for row in floors]) or alt.Undefined
    legend = alt.Legend(title=None, orient="top", offset=30, symbolType="stroke")
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2.2)
        .encode(
            x=alt.X("round:Q", title="round", axis=alt.Axis(labelExpr=COST_LABELS, tickCount=6)),
            y=alt.Y("bound:Q", scale=alt.Scale(type="log", nice=False, padding=6), axis=axis),
            color=alt.Color("label:N", scale=alt.Scale(domain=list(curves)), legend=legend),
        )
    )
    layers = alt.layer(lines, *target_rules(levels), *floor_rules(floors))
    return layers.properties(width=WIDTH, height=HEIGHT).configure(**config(LIGHT))
