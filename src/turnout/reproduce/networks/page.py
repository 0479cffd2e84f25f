"""What the page of a comparison on networks shows: its verdict and its tables in words."""

import json
import math
from pathlib import Path

from turnout.io.atomic import write
from turnout.reproduce.networks import words
from turnout.reproduce.networks.run import FRESH, Plan
from turnout.reproduce.networks.tables import Entry, Numbers
from turnout.reproduce.page import PART, Drawn, write_page
from turnout.reproduce.store import parquet


def write_all(folder: Path, plan: Plan, figures: list[Drawn], numbers: Numbers, facts: dict) -> Path:
    """Write everything to `folder` and return the path of the page; its tables only where all contenders were played."""
    paper, whole = plan.paper, plan.whole
    write(folder / "results.parquet", parquet(numbers.rows))
    write(folder / "tuning.parquet", parquet(numbers.tuning))
    tables = [plain(plan, numbers, name) for name in plan.problems] if whole else []
    write(folder / "summary.json", json.dumps(facts | {"tables": tables}, indent=2) + "\n")
    return write_page(
        folder,
        "networks.html",
        figures,
        facts,
        title=paper.title,
        authors=paper.authors,
        verdict=words.verdict(paper, numbers, plan.problems) if whole else [PART],
        tuned=words.tuned(paper, plan.seeds, FRESH),
        tables=[table(plan, numbers, name) for name in plan.problems] if whole else [],
    )


def table(plan: Plan, numbers: Numbers, problem: str) -> dict:
    """Return what goals cost on one problem in words: a row for each contender, a cell for each column."""
    paper, columns = plan.paper, plan.paper.columns_of(problem)
    rows = [
        (paper.contenders[name].title, [cell(numbers.entry(problem, name, column.goal)) for column in columns])
        for name in paper.settings[problem].contenders
    ]
    levels = [
        f"{column.title}: {words.aim(numbers.known(problem, column.goal))}" for column in columns if column.goal.level == "common"
    ]
    heads = [column.title for column in columns]
    return {"title": paper.settings[problem].title, "heads": heads, "levels": levels, "rows": rows}


def cell(entry: Entry) -> list[str]:
    """Return the lines of one cell: the cost and the setting."""
    return [words.cost(entry), *([entry.setting] if entry.setting else [])]


def plain(plan: Plan, numbers: Numbers, problem: str) -> dict:
    """Return the same as plain data; a cost that is not finite is None."""

    def value(entry: Entry) -> dict:
        kept = {"setting": entry.setting, "arrived": entry.arrived, "runs": int(entry.costs.size)}
        numbers = {"mean": entry.mean, "error": entry.error, "least": entry.least}
        return kept | {key: each if math.isfinite(each) else None for key, each in numbers.items()}

    columns = plan.paper.columns_of(problem)
    levels = {column.title: numbers.known(problem, column.goal).level for column in columns}
    rows = {
        name: {column.title: value(numbers.entry(problem, name, column.goal)) for column in columns}
        for name in plan.paper.settings[problem].contenders
    }
    return {"problem": problem, "levels": levels, "rows": rows}
