"""A figure of theoretical bounds."""

from typing import Any

import numpy as np

from turnout.report.charts import COSTS, floor_rules, framed, log_axis, quantity, target_rules, upright


def bound_chart(
    rounds: np.ndarray, curves: dict[str, np.ndarray], what: str, floor: float | None = None, epsilon: float | None = None
) -> dict[str, Any]:
    """Draw the bounds `curves`, by label, against `rounds`, with the target `epsilon` and one cohort's sampling error `floor`.

    Args:
        rounds: Numbers of rounds.
        curves: Bound after each of them, by label.
        what: What is bounded.
        floor: Sampling error of one cohort, if known.
        epsilon: Target, if there is one.
    """
    floors = [] if not floor else [{"floor": float(floor), "text": "sampling error of one cohort"}]
    levels = [] if epsilon is None else [epsilon]
    rows = [
        {"label": label, "round": int(t), "bound": float(value)}
        for label, values in curves.items()
        for t, value in zip(rounds, values, strict=True)
        if value > 0
    ]
    heights = [row["bound"] for row in rows] + levels + [row["floor"] for row in floors]
    legend = {"title": None, "orient": "top", "offset": 30, "symbolType": "stroke"}
    lines = {
        "data": {"values": rows},
        "mark": {"type": "line", "strokeWidth": 2.2},
        "encoding": {
            "x": {**quantity("round"), "title": "round", "axis": COSTS},
            "y": {**quantity("bound"), **log_axis(upright(f"bound on the {what}"), heights)},
            "color": {"field": "label", "type": "nominal", "scale": {"domain": list(curves)}, "legend": legend},
        },
    }
    return framed([lines, *target_rules(levels), *floor_rules(floors)])
