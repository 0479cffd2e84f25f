"""What the page of a comparison of dual and primal methods shows: its verdict and its tables in words."""

import json
import math
from pathlib import Path

import polars as pl

from turnout.io.atomic import write
from turnout.report.format import count
from turnout.reproduce.dual import words
from turnout.reproduce.dual.paper import Paper, Setting, Setup
from turnout.reproduce.dual.run import Plan
from turnout.reproduce.dual.tables import COSTS, Numbers
from turnout.reproduce.page import PART, Drawn, write_page
from turnout.reproduce.store import parquet


def write_all(
    folder: Path, plan: Plan, figures: list[Drawn], rounds: pl.DataFrame, found: pl.DataFrame, numbers: Numbers, facts: dict
) -> Path:
    """Write everything to `folder` and return the path of the page; its tables only where all contenders were played."""
    paper, whole = plan.paper, plan.whole
    counted = [paper.settings[name] for name in plan.sets if name not in paper.accuracy.sets]
    tested = [paper.settings[name] for name in plan.sets if name in paper.accuracy.sets]
    tables = [*plain(numbers.frame), *numbers.best.to_dicts()] if whole else []
    write(folder / "results.parquet", parquet(found))
    write(folder / "curves.parquet", parquet(rounds))
    write(folder / "summary.json", json.dumps(facts | {"tables": tables}, indent=2) + "\n")
    return write_page(
        folder,
        "dual.html",
        figures,
        facts,
        title=paper.title,
        authors=paper.authors,
        verdict=words.verdict(paper, numbers, plan.sets) if whole else [PART],
        tables=[counts(paper, numbers, setting) for setting in counted] if whole else [],
        accuracies=[accuracies(paper, numbers, setting) for setting in tested] if whole else [],
        rounds=paper.accuracy.rounds,
        seeds={setting.title: plan.seeds_of(setting) for setting in [*counted, *tested]},
    )


def plain(frame: pl.DataFrame) -> list[dict]:
    """Return the medians as plain data; a cost that is not finite becomes None."""
    return [{key: None if value == math.inf else value for key, value in row.items()} for row in frame.iter_rows(named=True)]


def counts(paper: Paper, numbers: Numbers, setting: Setting) -> dict:
    """Return the costs on one set in words: a row for each contender, a cell for each setup."""
    setups = [setup for setup in paper.setups if setup.tau in setting.rounds]
    return {
        "title": setting.title,
        "heads": [f"τ = {setup.tau}, ε = {setup.below:g}" for setup in setups],
        "rows": [
            (paper.contenders[name].title, [cell(paper, numbers, setting, name, setup) for setup in setups])
            for name in setting.contenders
        ],
    }


def cell(paper: Paper, numbers: Numbers, setting: Setting, name: str, setup: Setup) -> list[str]:
    """Return the lines of one cell: rounds, exchanges and bytes, and what others found."""
    rounds, exchanges, sent = (numbers.cost(setting.name, name, setup, what) for what in COSTS)
    reached = f"{count(exchanges)} exchange{'' if exchanges == 1 else 's'}, {words.size(sent)}" if math.isfinite(rounds) else ""
    others = {source: found.counts.get((setting.name, name, setup)) for source, found in published(paper).items()}
    said = ", ".join(f"{source} {value}" for source, value in others.items() if value is not None)
    return [f">{setting.rounds[setup.tau]}" if rounds == math.inf else count(rounds), reached, said]


def accuracies(paper: Paper, numbers: Numbers, setting: Setting) -> dict:
    """Return the test accuracies on one set in words: ours, printed and released."""
    rows = []
    for name in setting.contenders:
        others = [found.accuracies.get((setting.name, name), "–") for found in published(paper).values()]
        rows.append([paper.contenders[name].title, f"{numbers.accuracy(setting.name, name):.2f}", *others])
    return {"title": setting.title, "rows": rows}


def published(paper: Paper) -> dict:
    """Return what others found by what it is called."""
    return {"printed": paper.printed, "released": paper.released}
