"""What the page of a comparison of costs shows: its verdict and its tables in words."""

import json
from pathlib import Path

from turnout.accounting.prices import Exchanges, Hierarchical, Price
from turnout.io.atomic import write
from turnout.reproduce.costs import words
from turnout.reproduce.costs.paper import Paper
from turnout.reproduce.costs.run import FRESH, Results
from turnout.reproduce.costs.tables import UNITS, Entry, Row, Tables, reduction
from turnout.reproduce.page import PART, Drawn, write_page
from turnout.reproduce.store import parquet

LADDERS: dict[str, Price] = {
    "Whose gain is it? True exchanges, flat": Exchanges(),
    "Whose gain is it? Hierarchical price, c1 = 0.1, c2 = 1": Hierarchical(c1=0.1, c2=1.0),
}


def write_all(folder: Path, paper: Paper, figures: list[Drawn], tables: Tables | None, results: Results, facts: dict) -> Path:
    """Write everything to `folder` and return the path of the page."""
    write(folder / "results.parquet", parquet(results.hits))
    write(folder / "curves.parquet", parquet(results.curves))
    write(folder / "summary.json", json.dumps(facts | {"tables": tables.plain() if tables else []}, indent=2) + "\n")
    return write_page(
        folder,
        "costs.html",
        figures,
        facts,
        title=paper.title,
        authors=paper.authors,
        verdict=words.verdict(tables, results) if tables else [PART],
        seeds=seeds(results),
        rows=[shown(row, paper) for row in tables.rows()] if tables else [],
        ladders=[ladder(title, price, tables) for title, price in LADDERS.items()] if tables else [],
        reduction=paper.printed.reduction,
    )


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
    printed = {Exchanges(): paper.printed.reduction, Hierarchical(c1=0.1, c2=1.0): paper.printed.hierarchical_reduction}.get(
        price
    )
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
