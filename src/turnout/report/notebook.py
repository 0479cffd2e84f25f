"""What notebooks show: a small table and one chart, as HTML that needs nothing but itself."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape

import numpy as np
import polars as pl

from turnout.core.extras import MissingExtraError
from turnout.engines.metrics import NAMES
from turnout.report.compared import compared
from turnout.report.format import number
from turnout.report.lines import Drawing, Line, picture
from turnout.report.vega import converter

MOST, POINTS = 12, 40
"""The most rows and lines that are shown, and the most points of a line."""


def runs_html(groups: Mapping[str, Sequence[pl.DataFrame]]) -> str:
    """Return the last row and the first metric of runs, in the median over the runs of each group.

    Args:
        groups: The frames of runs by the name of their group.
    """
    frames = [frame for group in groups.values() for frame in group]
    metrics = [name for name in NAMES if name in frames[0].columns]
    columns = ["round", *metrics, "exchanges"]
    ends = {label: pl.concat([frame[-1].select(columns) for frame in group]) for label, group in groups.items()}
    rows = [
        [label, str(len(group)), *(number(end[name].quantile(0.5, "higher") or 0.0) for name in columns)]
        for (label, group), end in zip(groups.items(), ends.values(), strict=True)
    ]
    return shown(["", "runs", *columns], rows, _against_exchanges(groups, metrics[0]) if metrics else None)


def shown(headings: Sequence[str], rows: Sequence[Sequence[str]], drawing: Drawing | None) -> str:
    """Return a table and a chart."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows[:MOST])
    more = f"<p>The first {MOST} of {len(rows)} rows.</p>" if len(rows) > MOST else ""
    chart = svg(drawing) if drawing is not None and drawing.lines else ""
    return f"<div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}{chart}</div>"


def svg(drawing: Drawing) -> str:
    """Return a chart as an SVG element, of very many lines the first ones; without the extra "report" a sentence."""
    lines = tuple(_thin(line) for line in drawing.lines[:MOST])
    try:
        drawn = converter().vegalite_to_svg(picture([replace(drawing, lines=lines)]))
    except MissingExtraError as error:
        return f"<p>{escape(str(error))}</p>"
    drawn = re.sub(r' xmlns(:\w+)?="[^"]*"', "", drawn)
    drawn = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d)\d+", r"\1", path[0]), drawn)
    return drawn.replace("<svg", f'<svg role="img" aria-label="{escape(drawing.words)}"', 1)


def _against_exchanges(groups: Mapping[str, Sequence[pl.DataFrame]], metric: str) -> Drawing:
    """Return the chart of a metric, against rounds where there is no exchange."""
    x = "exchanges" if all(frame["exchanges"][-1] for group in groups.values() for frame in group) else "round"
    return compared(dict(list(groups.items())[:MOST]), metric, x, lambda frame: frame[x], POINTS)


def _thin(line: Line) -> Line:
    """Return a line with fewer points."""
    chosen = np.unique(np.linspace(0, len(line.x) - 1, min(POINTS, len(line.x))).round().astype(int))
    return replace(line, **{name: [getattr(line, name)[k] for k in chosen] for name in ("x", "low", "median", "high")})
