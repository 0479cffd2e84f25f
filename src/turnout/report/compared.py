"""The chart of a metric of several runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from turnout.accounting.target import smaller_better
from turnout.report.format import is_linear, title_of
from turnout.report.lines import POINTS, Drawing, banded, visible

if TYPE_CHECKING:
    import polars as pl


def compared(
    groups: Mapping[str, Sequence["pl.DataFrame"]], metric: str, x: str, across: Callable, points: int = POINTS
) -> Drawing:
    """Return what a chart of a metric shows, in the median over the runs of each group.

    Args:
        groups: The frames of runs by the name of their group.
        metric: Name of the metric.
        x: The name of the horizontal axis.
        across: Returns the horizontal values of a frame.
        points: The most points of a line.
    """
    lines = []
    for label, group in groups.items():
        runs = [(np.asarray(across(frame), float), smaller_better(metric, frame[metric].to_numpy())) for frame in group]
        lines.append((label, banded(runs, points), False))
    scale = "linear" if is_linear(metric) else "log"
    return Drawing("", x, title_of(metric), visible(lines, scale), scale)
