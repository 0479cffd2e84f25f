"""Published results: what a study left in its folder, read back."""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from turnout.core.errors import UserError
from turnout.experiment.provenance import machine, versions
from turnout.studies.declaration import Declaration
from turnout.studies.files import file_name

SUMMARY = "summary.json"

ROW = ("problem", "method", "setting")
"""The columns that say what was played."""

NUMBERS = ("cost", "low", "high", "interval_low", "interval_high", "reached", "seeds")
"""The columns that are held: the median, the quartiles, the interval of the median, and the counts of seeds."""


Row = dict[str, Any]
"""A row of a table: its `ROW` as text, and its `NUMBERS`."""

Part = tuple[str, str, str]
"""A problem, a method and a setting, whose runs are in a row of each table."""


@dataclass(frozen=True)
class Published:
    """The folder of a study that was played.

    Args:
        name: What it is called.
        command: How the study was started.
        seeds: The seeds that are reported, in words.
        exact: Whether numbers have to come out again: versions and the machine, where it is known, are those of this process.
        tables: The rows of each table, by the name of its file; none of a table that the study makes itself.
        date: When it was played.
    """

    name: str
    command: str
    seeds: str
    exact: bool
    tables: Mapping[str, list[Row]]
    date: str


def folders_of(path: Path) -> list[Path]:
    """Return the folders of results: `path`, or those in it; `UserError` where there is none."""
    if not path.is_dir():
        raise UserError(f"{path}: there is no such folder: give the folder of a study, or one that has several")
    found = [path] if (path / SUMMARY).is_file() else sorted(child for child in path.iterdir() if child.is_dir())
    if not any((folder / SUMMARY).is_file() for folder in found):
        raise UserError(f"{path} has no results: give the folder of a study, with its {SUMMARY}, or one that has several")
    return found


def read(folder: Path) -> Published:
    """Read the folder of a study; `UserError` for one that has no summary of a study, or no tables."""
    try:
        facts = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        made_with = {**facts["versions"], "machine": facts.get("machine", machine())}
        command, seeds, date = facts["command"], facts["seeds"]["reported on"], facts["date"]
    except FileNotFoundError:
        raise UserError(f"it has no {SUMMARY}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"its {SUMMARY} cannot be read ({error})") from None
    except (AttributeError, KeyError, TypeError):
        raise UserError(f"its {SUMMARY} is not that of a study, or of another version of turnout") from None
    files = sorted((folder / "tables").glob("*.csv"))
    if not files:
        raise UserError("it has no tables")
    exact = made_with == {"turnout": version("turnout"), **versions(), "machine": machine()}
    return Published(folder.resolve().name, command, seeds, exact, {file.stem: _rows(file) for file in files}, date)


def _rows(file: Path) -> list[Row]:
    """Return the rows of a table that has a method's numbers on a problem; none of one that a study makes itself."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if not {*ROW, *NUMBERS} <= {*(rows[0] if rows else ())}:
        return []
    try:
        return [{**{name: row[name] for name in ROW}, **{name: float(row[name]) for name in NUMBERS}} for row in rows]
    except (TypeError, ValueError):
        raise UserError(f"its table {file.name} has numbers that are none") from None


def asked(published: Published, declaration: Declaration) -> dict[str, tuple[str, str]]:
    """Return the names of the goal and the price of each table; none of those that are not of the declared ones."""
    names = {file_name(f"{goal}, {price}"): (goal, price) for goal in declaration.goals for price in declaration.prices}
    return {table: names[table] for table, rows in published.tables.items() if rows and table in names}


def tables_of(published: Published, declaration: Declaration) -> dict[Part, dict[tuple[str, str, str], Row]]:
    """Return the rows of each part by the names of their table, its goal and its price."""
    parts: dict[Part, dict[tuple[str, str, str], Row]] = {}
    for table, names in asked(published, declaration).items():
        for row in published.tables[table]:
            parts.setdefault((row["problem"], row["method"], row["setting"]), {})[(table, *names)] = row
    return parts
