"""Figures of a comparison on networks."""

from collections.abc import Iterator

import altair as alt
import numpy as np
import polars as pl

from turnout.accounting.prices import Exchanges, Price
from turnout.report.format import METRICS
from turnout.reproduce import page
from turnout.reproduce.charts import banded, client_sizes, compact, compared, log_axis
from turnout.reproduce.networks.paper import Figure, Panel, Paper
from turnout.reproduce.networks.tables import Entry, Numbers

NAMES = METRICS | {"accuracy": "training accuracy", "test_accuracy": "test accuracy", "value": "training loss"}


def draw(figure: Figure, paper: Paper, numbers: Numbers, problems: list[str], sizes: dict[str, np.ndarray]) -> page.Drawn:
    """Draw the panels of `figure` that are of `problems`; `sizes` are the rows of each one's clients."""
    panels = [drawn(panel, paper, numbers, sizes) for panel in figure.shown(problems)]
    return page.Drawn(figure.name, figure.title, figure.caption, panels)


def drawn(panel: Panel, paper: Paper, numbers: Numbers, sizes: dict[str, np.ndarray]) -> page.Panel:
    """Draw one panel."""
    where = paper.settings[panel.problem].title
    if panel.kind == "sizes":
        return client_sizes(sizes[panel.problem], f"{where}: training rows of each client")
    if panel.kind == "curves":
        return curves(panel, paper, numbers, where)
    return points(panel, paper, numbers, where)


def curves(panel: Panel, paper: Paper, numbers: Numbers, where: str) -> page.Panel:
    """Draw the median of a metric over the seeds against its cost, with a band between the quartiles."""
    goal, rows = panel.goal, []
    for name in panel.contenders:
        runs = numbers.runs(panel.problem, name, numbers.entry(panel.problem, name, goal).setting)
        cost = runs["queries_slowest"] if panel.against == "queries" else pl.Series(np.asarray(goal.price.cost(runs)))
        frame = runs.select("seed", x=cost.cast(pl.Float64), y=pl.col(goal.metric))
        rows += [compact({"label": paper.contenders[name].title, **row}) for row in compared(frame)]
    title = "queries of the slowest clients" if panel.against == "queries" else priced(goal.price)
    y = linear_axis() if goal.upwards else log_axis([row["median"] for row in rows], "median:Q")
    x, labels = alt.X("x:Q", title=title), labelled(panel, paper)
    return banded(rows, labels, x, f"{where}: {NAMES[goal.metric]}", columns=2, y=y)


def points(panel: Panel, paper: Paper, numbers: Numbers, where: str) -> page.Panel:
    """Draw the mean cost of a goal, with a band of one standard error, against what the panel goes along."""
    rows = [
        compact({"label": paper.contenders[name].title, "x": x, **band(entry)})
        for name in panel.contenders
        for x, entry in along(panel, paper, numbers, name)
        if np.isfinite(entry.mean)
    ]
    title = {"levels": NAMES[panel.goal.metric], "prices": "c₁", "along": "exchanges with a cohort, K"}[panel.kind]
    to = "" if panel.kind == "levels" or panel.goal.level is None else f" to {panel.goal.level} {NAMES[panel.goal.metric]}"
    x = alt.X("x:Q", title=title, scale=alt.Scale(zero=False))
    cost = "c₁ for an exchange, 1 for a cohort" if panel.kind == "prices" else priced(panel.goal.price)
    return banded(rows, labelled(panel, paper), x, f"{where}: {cost}{to}", columns=2, y=linear_axis())


def along(panel: Panel, paper: Paper, numbers: Numbers, name: str) -> Iterator[tuple[float, Entry]]:
    """Yield what a contender's line goes along, and what the goal cost there; one that goes along nothing has a level line."""
    if panel.kind != "along":
        ways = panel.levels if panel.kind == "levels" else panel.c1
        for x, goal in zip(ways, panel.goals, strict=True):
            yield x, numbers.entry(panel.problem, name, goal)
        return
    if paper.contenders[name].along is not None:
        for x, setting in numbers.settings(panel.problem, name, panel.goal, each=True):
            yield float(x or 0), numbers.entry(panel.problem, name, panel.goal, setting)
        return
    entry = numbers.entry(panel.problem, name, panel.goal)
    reach = [value for each in panel.contenders for value in goes_along(paper, each)]
    for x in (min(reach), max(reach)):
        yield x, entry


def goes_along(paper: Paper, name: str) -> list[float]:
    """Return the numbers that a contender goes along."""
    contender = paper.contenders[name]
    return list((contender.grid or {}).get(contender.along or "", []))


def band(entry: Entry) -> dict[str, float]:
    """Return the mean cost, and one standard error to each side."""
    error = 0.0 if np.isnan(entry.error) else entry.error
    return {"median": entry.mean, "low": entry.mean - error, "high": entry.mean + error}


def labelled(panel: Panel, paper: Paper) -> list[str]:
    """Return the titles of a panel's contenders."""
    return [paper.contenders[name].title for name in panel.contenders]


def linear_axis() -> alt.Y:
    """Return an upright axis as long as its values need."""
    return alt.Y("median:Q", title=None, scale=alt.Scale(zero=False, padding=8))


def priced(price: Price) -> str:
    """Name a price on an axis."""
    return "exchanges" if isinstance(price, Exchanges) else f"cost: {price.label}"
