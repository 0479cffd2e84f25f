"""What a reproduction leaves: a page, pictures of the figures, all numbers as a table, and a summary."""

import json
from pathlib import Path

import altair as alt
import vl_convert

from turnout.experiment.files import make_folder, write
from turnout.prices import Hierarchical, Price, Rounds
from turnout.report.page import SCALE, TEMPLATES
from turnout.report.theme import DARK, LIGHT, config
from turnout.reproduce import words
from turnout.reproduce.figures import Panel
from turnout.reproduce.paper import Figure, Paper
from turnout.reproduce.run import FRESH, Results
from turnout.reproduce.store import parquet
from turnout.reproduce.tables import UNITS, Entry, Row, Tables, reduction

LADDERS: dict[str, Price] = {
    "Whose gain is it? True exchanges, flat": Rounds(),
    "Whose gain is it? Hierarchical price, c1 = 0.1, c2 = 1": Hierarchical(c1=0.1, c2=1.0),
}


def write_all(
    folder: Path, paper: Paper, drawn: dict[str, tuple[Figure, list[Panel]]], tables: Tables | None, results: Results, facts: dict
) -> Path:
    """Write everything to `folder` and return the path of the page."""
    write(folder / "results.parquet", parquet(results.hits))
    write(folder / "curves.parquet", parquet(results.curves))
    write(folder / "summary.json", json.dumps(facts | {"tables": tables.plain() if tables else []}, indent=2) + "\n")
    pictures(make_folder(folder / "figures"), drawn)
    page = TEMPLATES.get_template("reproduction.html").render(
        title=paper.title,
        authors=paper.authors,
        verdict=words.verdict(tables, results) if tables else ["The tables come with the whole reproduction, without --figure."],
        seeds=seeds(results),
        rows=[shown(row, paper) for row in tables.rows()] if tables else [],
        ladders=[ladder(title, price, tables) for title, price in LADDERS.items()] if tables else [],
        reduction=paper.printed.reduction,
        figures=[
            {"name": name, "title": figure.title, "caption": words.caption(figure), "panels": [panel.title for panel in panels]}
            for name, (figure, panels) in drawn.items()
        ],
        command=facts["command"],
        facts=json.dumps(facts, indent=2),
        panels=_json(
            {f"{name}/{k}": panel.chart.to_dict() for name, (_, panels) in drawn.items() for k, panel in enumerate(panels)}
        ),
        themes=_json({"light": config(LIGHT), "dark": config(DARK)}),
        vega=vl_convert.javascript_bundle().replace("</script", "<\\/script"),
    )
    write(folder / "report.html", page)
    return folder / "report.html"


def pictures(folder: Path, drawn: dict[str, tuple[Figure, list[Panel]]]) -> None:
    """Write each figure as one SVG and one PNG."""
    for name, (_, panels) in drawn.items():
        chart = alt.concat(*(panel.chart for panel in panels), columns=2).resolve_scale(color="independent")
        spec = chart.configure(**config(LIGHT)).to_dict()
        write(folder / f"figure-{name}.svg", vl_convert.vegalite_to_svg(spec))
        write(folder / f"figure-{name}.png", vl_convert.vegalite_to_png(spec, scale=SCALE))


def seeds(results: Results) -> str:
    """Say which seeds the numbers are from."""
    tuning = {task.family.name: len(task.seeds) for task in results.tasks if not task.fresh}
    fresh = max((len(task.seeds) for task in results.tasks if task.fresh), default=0)
    span = sorted(set(tuning.values()))
    sentence = f"Figures, and the choice of settings, are from seeds 0 to {span[0] - 1}"
    if len(span) > 1:
        sentence += f" (LocalGD: up to {span[-1] - 1})"
    if fresh:
        sentence += f"; the tables are from seeds {FRESH} to {FRESH + fresh - 1}, which chose nothing"
    return f"{sentence}."


def shown(row: Row, paper: Paper) -> dict:
    """Return a row of the table in words."""
    price, first = row.nice.price, row.nice.data == paper.sets[0] and row.nice.below == paper.targets[0]
    printed = {Rounds(): paper.printed.reduction, Hierarchical(c1=0.1, c2=1.0): paper.printed.hierarchical_reduction}.get(price)
    entries = [row.nice, row.stratified, *(row.sppm[unit] for unit in UNITS)]
    saved = [row.reduction("iterations"), row.reduction("exchanges"), row.reduction("exchanges", "stratified")]
    return {
        "label": f"{row.nice.data}, {row.nice.below:g}, {f'c1 = {price.c1:g}' if isinstance(price, Hierarchical) else 'flat'}",
        "entries": [{"cost": words.cost(entry.cost), "setting": words.setting(entry)} for entry in entries],
        "saved": [words.percent(value) for value in saved],
        "printed": f"{printed:g} %" if first and printed else "",
    }


def ladder(title: str, price: Price, tables: Tables) -> dict:
    """Return the ladder under one price in words."""
    rungs = tables.ladder(price)
    first = next(iter(rungs.values()))
    return {
        "title": title,
        "heads": [f"{entry.data}, {entry.below:g}" for entry in first],
        "rungs": [
            (label, [_cell(e, r, tables) for e, r in zip(entries, first, strict=True)]) for label, entries in rungs.items()
        ],
    }


def _cell(entry: Entry, reference: Entry, tables: Tables) -> dict:
    saved = reduction(entry.cost, reference.cost)
    return {
        "cost": words.cost(entry.cost),
        "setting": words.setting(entry),
        "saved": "" if entry is reference else words.percent(saved),
        "enough": saved is not None and saved >= tables.paper.printed.reduction,
    }


def _json(content: dict) -> str:
    return json.dumps(content).replace("<", "\\u003c")
