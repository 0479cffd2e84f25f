"""Figures of a comparison of dual and primal methods."""

import polars as pl

from turnout.reproduce import page
from turnout.reproduce.charts import quartiles
from turnout.reproduce.dual.paper import Figure, Panel, Paper


def draw(figure: Figure, paper: Paper, rounds: pl.DataFrame, sets: list[str]) -> page.Drawn:
    """Draw the panels of `figure` that are of one of `sets`."""
    panels = [drawn(panel, paper, rounds) for panel in figure.shown(sets)]
    return page.Drawn(figure.name, figure.title, figure.caption, panels)


def drawn(panel: Panel, paper: Paper, rounds: pl.DataFrame) -> page.Panel:
    """Draw one panel."""
    setting = paper.settings[panel.set]
    mine = rounds.filter(pl.col("set") == panel.set, pl.col("tau") == panel.tau)
    # Runs end when they have arrived: a median over those that are left would be one over the slow ones.
    last = pl.col("round").max().over("contender", "seed").min().over("contender")
    mine = mine.filter(pl.col("round") <= last)
    names = {name: paper.contenders[name].title for name in panel.contenders}
    what = "loss f(x)" if setting.least == 0 else "gap f(x) − f*"
    return quartiles(mine, names, "contender", panel.against, "gap", f"{setting.title}: {what}")
