"""The curves of regret: what the best candidate so far costs, over the best of all, against the CPU seconds spent."""

import numpy as np
import polars as pl
import vl_convert

from benchmarks.planner.cases import SPENDS
from benchmarks.planner.rivals import RIVALS
from turnout.report.lines import Drawing, picture, visible

PLANNER = "turnout plan"


def curves(cases: pl.DataFrame) -> dict[str, np.ndarray]:
    """Return the ratios of the planner and of each rival [cases, spends], infinite before a candidate arrives."""
    columns = {PLANNER: "regret", **{name: f"regret of {name}" for name in RIVALS}}
    return {name: np.array(cases[column].to_list(), float) for name, column in columns.items()}


def svg(cases: pl.DataFrame) -> str:
    """Return the picture: medians over the cases, with bands between the quartiles."""
    lines = []
    for name, ratios in curves(cases).items():
        parts = (("low", 0.25, "lower"), ("median", 0.5, "higher"), ("high", 0.75, "higher"))
        bands = {part: np.quantile(ratios, share, axis=0, method=method) for part, share, method in parts}
        lines.append((name, {"x": SPENDS, **bands}, False))
    title, x, y = f"{len(cases)} cases", "CPU seconds, as a share of the plan's", "cost, over that of the best candidate"
    return vl_convert.vegalite_to_svg(picture([Drawing(title, x, y, visible(lines, "log"), "log", "log")]))
