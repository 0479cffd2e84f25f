"""The files of a study: tables, figures, a page and a summary."""

import json
import re
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from turnout.experiment.provenance import provenance, versions
from turnout.io.atomic import make_folder, write
from turnout.report.html import write_page
from turnout.report.lines import picture
from turnout.report.pictures import draw, write_charts
from turnout.studies.exhibits import OwnChart, OwnTable
from turnout.studies.overview import claim, matrix
from turnout.studies.page import page
from turnout.studies.pictures import figures_of, pictured
from turnout.studies.plan import name_of, seed_words
from turnout.studies.result_types import StudySummary
from turnout.studies.results import Results
from turnout.studies.tables import Tables


def write_files(study: Results, folder: Path, command: str) -> None:
    """Write all files of `study` but for its runs.

    Args:
        study: The study.
        folder: Its folder.
        command: How it was started.
    """
    tables, exhibits = study.tables(), study.exhibits()
    own = {one.name: one for one in exhibits if isinstance(one, OwnTable)}
    for stem, table in ({file_name(", ".join(names)): table for names, table in tables.items()} | own).items():
        for ending, text in (("md", table.markdown()), ("csv", table.csv()), ("tex", table.latex())):
            write(make_folder(folder / "tables") / f"{stem}.{ending}", text)
    matrices = {names: content for names, table in tables.items() if (content := matrix(table))}
    write(make_folder(folder / "tables") / "matrices.json", json.dumps([*matrices.values()], ensure_ascii=False) + "\n")
    figures, facts = figures_of(study), summary(study, tables, command)
    specs = {f"figure-{drawn.figure.name}": picture(drawn.drawings) for drawn in pictured(figures)}
    charts = specs | {one.name: one.chart for one in exhibits if isinstance(one, OwnChart)}
    write_charts(folder, charts)
    html = partial(page, study, tables, matrices, figures, exhibits, facts)
    drawn = write_page(folder / "report.html", html, "the same command")
    write(folder / "summary.json", json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    if study.declaration.pictures and charts and drawn:
        draw(folder)


def summary(study: Results, tables: Tables, command: str) -> StudySummary:
    """Return what was played, and what came of it."""
    runs, declared = study.runs, study.declaration
    tuned = {"tuned on": seed_words(declared.tuned_on)} if declared.tuned_on else {}
    facts: StudySummary = {
        "title": declared.title,
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"turnout": version("turnout"), **versions()},
        **provenance(),
        "seeds": {**tuned, "reported on": seed_words(declared.seeds)},
        "runs": 0 if runs.is_empty() else runs.select("problem", "method", "setting", "purpose", "seed").n_unique(),
        "broken": [f"{name_of(run)}: {why}" for run, why in study.broken],
        "claims": [claim(verdict) for verdict in study.claims()],
        "findings": study.findings(),
        "notes": {table.title: list(table.notes) for table in tables.values()},
    }
    if study.budget is not None:
        facts["budget"] = study.budget.facts()
    return facts


def file_name(text: str) -> str:
    """Return `text` as the name of a file."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-")
