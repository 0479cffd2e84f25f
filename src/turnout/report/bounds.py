"""A figure of theoretical bounds."""

import numpy as np

from turnout.report.charts import ABOVE, Spec, floor_rules, target_rules, whole
from turnout.report.downsample import log_ticks
from turnout.report.format import COST_LABELS, LOG_LABELS


def bound_chart(
    rounds: np.ndarray, curves: dict[str, np.ndarray], what: str, floor: float | None = None, epsilon: float | None = None
) -> Spec:
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
    ticks = log_ticks([row["bound"] for row in rows] + levels + [row["floor"] for row in floors])
    axis = {"title": f"bound on the {what}", **ABOVE, "labelExpr": LOG_LABELS, **({"values": ticks} if ticks else {})}
    legend = {"title": None, "orient": "top", "offset": 30, "symbolType": "stroke"}
    lines = {
        "data": {"values": rows},
        "mark": {"type": "line", "strokeWidth": 2.2},
        "encoding": {
            "x": {
                "field": "round", "type": "quantitative", "title": "round", "axis": {"labelExpr": COST_LABELS, "tickCount": 6},
            },
            "y": {
                "field": "bound", "type": "quantitative", "scale": {"type": "log", "nice": False, "padding": 6}, "axis": axis,
            },
            "color": {"field": "label", "type": "nominal", "scale": {"domain": [*curves]}, "legend": legend},
        },
    }  # fmt: skip
    return whole([lines, *target_rules(levels), *floor_rules(floors)])
