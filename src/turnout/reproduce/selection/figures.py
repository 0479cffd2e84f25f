"""Figures of a comparison by selections."""

import altair as alt
import polars as pl

from turnout.reproduce import page
from turnout.reproduce.charts import banded, colored, compact, compared, finished, log_axis
from turnout.reproduce.selection.paper import Figure, Panel, Paper, Setup
from turnout.reproduce.selection.tables import Numbers, spending

LEAST = 1e-30
"""What a log axis shows."""


def draw(figure: Figure, paper: Paper, curves: pl.DataFrame, numbers: Numbers, problems: list[str], local: dict) -> page.Drawn:
    """Draw the panels of `figure` that are of `problems` only; `local` has the constants along its runs."""
    charts = [
        drawn(each, paper, curves, numbers) if isinstance(each, Panel) else constants(paper, each.problem, local[each])
        for each in figure.shown(problems)
    ]
    return page.Drawn(figure.name, figure.title, figure.caption, charts)


def drawn(panel: Panel, paper: Paper, curves: pl.DataFrame, numbers: Numbers) -> page.Panel:
    """Draw one panel: for each line the median over the seeds, with a band between the quartiles."""
    x = pl.col("queries_slowest") if panel.against == "queries" else spending(panel.arbitrary)
    rows = [
        {"label": label, **row}
        for label, runs in lines(panel, paper, curves.with_columns(x=x.cast(pl.Float64)), numbers)
        for row in compared(runs.with_columns(y=pl.col("share").clip(LEAST, 1 / LEAST)))
    ]
    labels = list(dict.fromkeys(row["label"] for row in rows))
    named = "queries of the slowest clients" if panel.against == "queries" else "cost"
    at = f", C_A = {panel.arbitrary:g}" if panel.arbitrary > 1 else ""
    title = f"{', '.join(paper.settings[name].title for name in panel.problems)}{at}: |∇f|², share of the start"
    return banded([compact(row) for row in rows], labels, alt.X("x:Q", title=named), title, columns=2)


def lines(panel: Panel, paper: Paper, curves: pl.DataFrame, numbers: Numbers):
    """Yield the label and the runs of each line."""
    for problem in panel.problems:
        for name in panel.contenders:
            mine = curves.filter(pl.col("problem") == problem, pl.col("contender") == name)
            title = paper.contenders[name].title if len(panel.problems) == 1 else paper.settings[problem].title
            if panel.every:
                for setting in mine["setting"].unique(maintain_order=True):
                    yield f"{title}, {setting}" if setting else title, mine.filter(pl.col("setting") == setting)
            else:
                best = numbers.best(problem, name, Setup(paper.below[0], panel.arbitrary)).setting
                yield title, mine.filter(pl.col("setting") == best)


def constants(paper: Paper, problem: str, steps: pl.DataFrame) -> page.Panel:
    """Draw delta and L_1 of each step of a run."""
    rows = [
        {"iteration": row["iteration"], "value": row[name], "label": label}
        for row in steps.iter_rows(named=True)
        for name, label in (("delta", "δ"), ("smooth_one", "L₁"))
        if row[name] > 0
    ]
    points, labels = [compact(row) for row in rows], ["δ", "L₁"]
    chart = alt.Chart(alt.Data(values=points)).encode(x=alt.X("iteration:Q", title="iteration"), color=colored(labels))
    line = chart.mark_line(strokeWidth=2).encode(y=log_axis([row["value"] for row in points], "value:Q"))
    return finished([line], f"{paper.settings[problem].title}: constants along the run")
