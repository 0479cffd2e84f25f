"""The curves of regret: what the best candidate so far costs, over the best of all, against the CPU seconds spent."""

import numpy as np
import polars as pl
import vl_convert

from benchmarks.planner.cases import SPENDS
from benchmarks.planner.rivals import RIVALS
from turnout.report.lines import Drawing, banded, picture, visible

COLUMNS = {"turnout plan": "regret", **{name: f"regret of {name}" for name in RIVALS}}


def svg(cases: pl.DataFrame) -> str:
    """Return the picture: medians over the cases, with bands between the quartiles."""
    lines = []
    for name, column in COLUMNS.items():
        lines.append((name, banded([(SPENDS, np.array(ratios, float)) for ratios in cases[column]]), False))
    title, x, y = f"{len(cases)} cases", "CPU seconds, as a share of the plan's", "cost, over that of the best candidate"
    return vl_convert.vegalite_to_svg(picture([Drawing(title, x, y, visible(lines, "log"), "log", "log")]))
