"""The files of a study: tables, figures, a page and a summary."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from turnout.io.atomic import make_folder, write
from turnout.studies.page import page
from turnout.studies.pictures import figures_of, write_pictures

if TYPE_CHECKING:
    from turnout.studies.results import Study


def write_files(study: "Study", folder: Path, command: str) -> None:
    """Write all files of `study` but for its runs.

    Args:
        study: The study.
        folder: Its folder.
        command: How it was started.
    """
    tables = {f"{goal}, {price}": table for (goal, price), table in study.tables().items()}
    for name, table in tables.items():
        stem = make_folder(folder / "tables") / file_name(name)
        for ending, text in ((".md", table.markdown()), (".csv", table.csv()), (".tex", table.latex())):
            write(stem.with_name(stem.name + ending), text)
    figures = figures_of(study)
    write_pictures(folder / "figures", figures)
    write(folder / "report.html", page(study, figures, command))
    write(folder / "summary.json", json.dumps(summary(study, command), indent=2, ensure_ascii=False) + "\n")


def summary(study: "Study", command: str) -> dict:
    """Return what was played, and what came of it."""
    runs = study.runs
    return {
        "title": study.declaration.title,
        "command": command,
        "runs": 0 if runs.is_empty() else runs.select("problem", "method", "setting", "purpose", "seed").n_unique(),
        "broken": study.broken_words(),
        "claims": [str(verdict) for verdict in study.claims()],
        "findings": study.findings(),
        "notes": {table.title: list(table.notes) for table in study.tables().values()},
    }


def file_name(text: str) -> str:
    """Return `text` as the name of a file."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-")
