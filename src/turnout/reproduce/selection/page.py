"""What the page of a comparison by selections shows: its verdict and its tables in words."""

import json
import math
from pathlib import Path

import polars as pl

from turnout.io.atomic import write
from turnout.report.format import count, human_bytes
from turnout.reproduce.page import PART, Drawn, write_page
from turnout.reproduce.selection import words
from turnout.reproduce.selection.run import Plan
from turnout.reproduce.selection.tables import Best, Numbers
from turnout.reproduce.store import parquet


def write_all(
    folder: Path, plan: Plan, figures: list[Drawn], hits: pl.DataFrame, curves: pl.DataFrame, numbers: Numbers, facts: dict
) -> Path:
    """Write everything to `folder` and return the path of the page; its tables only where all contenders were played."""
    paper, whole = plan.paper, plan.whole
    write(folder / "results.parquet", parquet(hits))
    write(folder / "curves.parquet", parquet(curves))
    write(folder / "summary.json", json.dumps(facts | {"tables": numbers.rows() if whole else []}, indent=2) + "\n")
    sizes = {name: entry["n"] / entry["m"] for name, entry in facts["problems"].items()}
    return write_page(
        folder,
        "selection.html",
        figures,
        facts,
        title=paper.title,
        authors=paper.authors,
        verdict=words.verdict(paper, numbers, plan.problems, sizes) if whole else [PART],
        tables=[table(plan, numbers, name, facts["problems"][name]) for name in plan.problems] if whole else [],
        heads=[f"C_A = {setup.arbitrary:g}, {setup.below:g}" for setup in paper.setups],
        seeds=plan.seeds,
    )


def table(plan: Plan, numbers: Numbers, problem: str, constants: dict) -> dict:
    """Return the best settings on one problem in words: a row for each contender, a cell for each setup."""
    paper = plan.paper
    names = words.rivals(paper, problem, "paper", "baseline", "beyond")
    names = sorted(names, key=lambda name: words.cost(numbers, problem, name, paper.setups[0]))
    rows = [
        (paper.contenders[name].title, [cell(numbers.best(problem, name, setup)) for setup in paper.setups]) for name in names
    ]
    return {"title": paper.settings[problem].title, "constants": constants, "rows": rows}


def cell(best: Best) -> list[str]:
    """Return the lines of one cell: cost, queries and bytes, and the setting."""
    if not math.isfinite(best.cost):
        return [count(best.cost)]
    return [count(best.cost), f"{count(best.queries)} queries, {human_bytes(best.bytes)}", best.setting]
