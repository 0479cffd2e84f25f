"""The lines of a study's figures, computed from its runs."""

from typing import Any

import numpy as np
import polars as pl

from turnout.accounting.prices import Price
from turnout.accounting.target import smaller_better
from turnout.report.format import title_of
from turnout.report.lines import Drawing, Scale, banded, visible
from turnout.studies.costs import SETTING, best_settings
from turnout.studies.figures import COST, COUNTS, PRICES, Figure, Panel
from turnout.studies.results import Results

WIDE = 20
"""A swept key whose largest value is so many times its smallest one has a log axis."""

Columns = dict[str, Any]


def drawings(study: Results, figure: Figure) -> list[Drawing]:
    """Return the charts of a figure that have something to show: one for each panel and problem."""
    if study.runs.is_empty():
        return []
    played = study.declaration.problems
    each = [_drawing(study, panel, name) for panel in figure.panels for name in panel.problems if name in played]
    return [drawing for drawing in each if drawing.lines]


def settings(study: Results, panel: Panel, problem: str, price: str | None = None) -> pl.DataFrame:
    """Return the settings that a panel shows of a problem: the cheapest one for each line, and for each value of a swept `x`.

    Where settings are compared, they are those on the seeds of tuning, of methods that have these.

    Args:
        study: The study.
        panel: The panel.
        problem: The problem.
        price: Name of the price at which a setting is the cheapest; default: that of the panel.
    """
    swept = [key for key in (panel.by, panel.x if panel.y == COST else "") if key in study.runs.columns]
    compared = panel.settings == "all" or swept or panel.where
    if panel.goal:
        shown = (study.costs if compared else study.best)(panel.goal, price or panel.price)
    else:
        shown = study.runs.unique(SETTING, maintain_order=True)
    if shown.is_empty():
        return shown
    shown = shown.filter(pl.col("problem") == problem, pl.col("method").is_in(panel.methods))
    # Both "report" and "tune" are there where a method is tuned; the latter comes last.
    shown = shown.filter(pl.col("purpose") == pl.col("purpose").max().over("method"))
    for key, value in panel.where.items():
        if key in shown.columns:
            same = pl.col(key) == (str(value) if shown.schema[key] == pl.String else value)
            shown = shown.filter(same | pl.col(key).is_null())
    if panel.goal and panel.settings == "best":
        shown = best_settings(shown, ("method", *swept))
    return shown.sort(pl.col("method").cast(pl.Enum(list(study.declaration.methods))), *swept, maintain_order=True)


def _drawing(study: Results, panel: Panel, problem: str) -> Drawing:
    """Return the chart of one problem."""
    name = study.declaration.problems[problem]
    title = f"{panel.title} · {name}" if panel.title and len(panel.problems) > 1 else panel.title or name
    return (_cost_drawing if panel.y == COST else _curve_drawing)(study, panel, problem, title, panel.scale or "log")


def _curve_drawing(study: Results, panel: Panel, problem: str, title: str, scale: Scale) -> Drawing:
    """Return the chart of a metric along the runs."""
    lines = visible([(label, columns, False) for label, columns in _curves(study, panel, problem)], scale)
    prices, counts = study.declaration.prices, {"queries": "queries of the slowest client"}
    x = prices[panel.x].label if panel.x in prices else counts.get(panel.x, panel.x)
    return Drawing(title, x, f"{title_of(panel.y)}{' / its first value' if panel.share else ''}", lines, scale)


def _cost_drawing(study: Results, panel: Panel, problem: str, title: str, scale: Scale) -> Drawing:
    """Return the chart of costs against a swept key or a field of prices."""
    along_prices, price = panel.x.startswith(PRICES), study.price(panel.price)
    lines = visible(_spread((_price_points if along_prices else _key_points)(study, panel, problem)), scale)
    swept = [x for line in lines if not line.level for x in line.x]
    across = "point" if any(isinstance(x, str) for x in swept) else _numeric(swept)
    y = f"cost to {study.goal(panel.goal).words}: {price.unit if along_prices else price.label}"
    return Drawing(title, panel.x.rpartition(".")[2], y, lines, scale, across, dots=True)


def _curves(study: Results, panel: Panel, problem: str) -> list[tuple[str, Columns]]:
    """Return the label and the columns of each line of a metric."""
    chosen = settings(study, panel, problem)
    frames = study.runs.filter(pl.col("problem") == problem).partition_by("method", "setting", "purpose", as_dict=True)
    lines = []
    for facts in chosen.iter_rows(named=True):
        frame = frames[facts["method"], facts["setting"], facts["purpose"]]
        if panel.y in frame.columns and not (frame := frame.filter(pl.col(panel.y).is_not_null())).is_empty():
            runs = [_run(study, panel, one) for one in frame.partition_by("seed", maintain_order=True)]
            lines.append((_label(study, panel, facts), banded(runs)))
    return lines


def _run(study: Results, panel: Panel, rows: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the horizontal and the vertical values along one run."""
    prices = study.declaration.prices
    x = prices[panel.x].cost(rows) if panel.x in prices else rows[COUNTS[panel.x]]
    y = smaller_better(panel.y, rows[panel.y].to_numpy().astype(float))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(x, float), y / y[0] if panel.share else y


def _key_points(study: Results, panel: Panel, problem: str) -> list[tuple[str, Any, dict]]:
    """Return the label, the value of the swept key and the costs of each point; None is the value of a method without the key."""
    chosen = settings(study, panel, problem)
    return [(_label(study, panel, facts), facts.get(panel.x), facts) for facts in chosen.iter_rows(named=True)]


def _price_points(study: Results, panel: Panel, problem: str) -> list[tuple[str, Any, dict]]:
    """Return the label, the field of the price and the costs of each point: one for each price of the same class."""
    name, own = panel.x.removeprefix(PRICES), study.price(panel.price)
    alike: dict[str, Price] = {key: one for key, one in study.declaration.prices.items() if isinstance(one, type(own))}
    return [
        (_label(study, panel, facts), getattr(one, name), facts)
        for key, one in sorted(alike.items(), key=lambda item: getattr(item[1], name))
        for facts in settings(study, panel, problem, key).iter_rows(named=True)
    ]


def _spread(points: list[tuple[str, Any, dict]]) -> list[tuple[str, Columns, bool]]:
    """Return the columns of each line of costs; a method without the swept key is level over the whole axis."""
    values = list(dict.fromkeys(x for _, x, _ in points if x is not None))
    values = values if any(isinstance(x, str) for x in values) else sorted(values)
    lines = []
    for label in dict.fromkeys(label for label, *_ in points):
        own = {x: facts for name, x, facts in points if name == label}
        level = None in own
        places = values if level else [x for x in values if x in own]
        facts = [own[None if level else x] for x in places]
        columns = {
            column: [one[name] for one in facts] for column, name in (("low", "low"), ("median", "cost"), ("high", "high"))
        }
        lines.append((label, {"x": places, **columns}, level))
    return lines


def _numeric(values: list[float]) -> Scale:
    """Return the scale of the numbers of a swept key."""
    return "log" if values and min(values) > 0 and max(values) >= WIDE * min(values) else "linear"


def _label(study: Results, panel: Panel, facts: dict) -> str:
    """Return the label of a line."""
    titles = [method.title for method in study.declaration.methods.values()]
    title = study.declaration.methods[facts["method"]].title
    parts = [title if titles.count(title) == 1 else facts["method"]]
    if panel.settings == "all" or not panel.goal:
        parts += filter(None, [facts["setting"]])
    elif panel.by and facts.get(panel.by) is not None:
        parts.append(f"{panel.by.rpartition('.')[2]} = {_word(facts[panel.by])}")
    return ", ".join(parts)


def _word(value: Any) -> str:
    """Write the value of a swept key."""
    return value if isinstance(value, str) else f"{value:g}"
