"""What the page of a comparison of samplers shows: its verdict and its tables in words."""

import json
import math
from pathlib import Path

import polars as pl

from turnout.io.atomic import write
from turnout.report.format import human_bytes, number
from turnout.reproduce.page import PART, Drawn, write_page
from turnout.reproduce.sampling import words
from turnout.reproduce.sampling.paper import Contender, Paper
from turnout.reproduce.sampling.run import Results
from turnout.reproduce.sampling.tables import Numbers
from turnout.reproduce.store import parquet

MEASURES = {
    "regret": "Cumulative dynamic regret",
    "variance": "Mean variance over all rounds",
    "late": "Mean variance of the last {late} rounds",
    "static_regret": "Cumulative static regret",
    "test_value": "Test loss at the end",
}
COMPARED = ("regret", "variance", "late")
"""Measures whose cells tell what is saved against the paper's sampler."""


def write_all(
    folder: Path, paper: Paper, figures: list[Drawn], results: Results, numbers: Numbers, whole: bool, facts: dict
) -> Path:
    """Write everything to `folder` and return the path of the page; its tables only where the `whole` paper was played."""
    write(folder / "results.parquet", parquet(results.runs))
    write(folder / "curves.parquet", parquet(results.rounds))
    write(folder / "summary.json", json.dumps(facts | {"tables": numbers.frame.to_dicts() if whole else []}, indent=2) + "\n")
    return write_page(
        folder,
        "sampling.html",
        figures,
        facts,
        title=paper.title,
        authors=paper.authors,
        verdict=[*(words.verdict(paper, numbers) if whole else [PART]), *words.case_study()],
        sizes=paper.sizes,
        tables=tables(paper, numbers) if whole else [],
        optimum=optimum(paper, numbers) if whole else [],
        costs=costs(paper, results.totals, facts["rounds"]) if whole else [],
        own=paper.own.title,
        seeds=results.seeds,
    )


def tables(paper: Paper, numbers: Numbers) -> list[dict]:
    """Return a table for each measure, and that of the variance with equal weights."""
    entrants = [contender for contender in paper.contenders.values() if contender.role != "sensitivity"]
    alike = [paper.contenders[name] for name in paper.equal]
    weighted = [table(paper, numbers, entrants, measure, title.format(late=paper.late)) for measure, title in MEASURES.items()]
    return [
        *weighted,
        table(paper, numbers, alike, "variance", "Mean variance over all rounds, equal weights λ = 1/N", "uniform"),
    ]


def table(paper: Paper, numbers: Numbers, contenders: list[Contender], measure: str, title: str, weights: str = "size") -> dict:
    """Return one table in words: a row for each contender, a cell for each K with its mean, standard error and what is saved."""

    def cell(contender: Contender, size: int) -> dict:
        value, error = (numbers.get(contender.name, size, name, weights) for name in (measure, f"{measure}_error"))
        saved = numbers.reduction(contender.name, paper.own.name, size, measure, weights)
        compared = measure in COMPARED and contender is not paper.own and math.isfinite(saved)
        return {"mean": words.short(value), "error": words.short(error), "saved": words.percent(saved) if compared else ""}

    rows = [
        {
            "title": contender.title,
            "law": contender.law,
            "cells": [cell(contender, size) for size in paper.sizes],
            "slope": words.short(numbers.slope(contender.name, paper.sizes)) if measure == "regret" else "",
        }
        for contender in contenders
    ]
    return {"title": title, "rows": rows, "slopes": measure == "regret"}


def optimum(paper: Paper, numbers: Numbers) -> list[tuple[str, list[str]]]:
    """Return how far above the optimum samplers are: along their own trajectory, and against the optimum's run."""
    rows = []
    for name in ("last-norm", "size", paper.own.name):
        title = paper.contenders[name].title
        own = [words.percent(100 * (numbers.get(name, k, "to_best") - 1)) for k in paper.sizes]
        other = [words.percent(-numbers.reduction(name, "optimal", k, "variance")) for k in paper.sizes]
        rows += [(f"{title}, along its own trajectory", own), (f"{title}, against the optimum’s run", other)]
    return rows


def costs(paper: Paper, totals: pl.DataFrame, rounds: int) -> list[list[str]]:
    """Return what each contender remembers, and sends in a round with the paper's second K."""
    size = paper.sizes[1]
    rows = []
    for contender in paper.contenders.values():
        mine = totals.filter(pl.col("sampler") == contender.name, pl.col("weights") == "size", pl.col("size") == size)
        if contender.role == "sensitivity" or mine.is_empty():
            continue
        first = mine.row(0, named=True)
        sent = [float(mine[name].mean()) / rounds for name in ("contacts", "bytes_down", "bytes_up")]
        kept = [number(first[name]) for name in ("scalars", "server_vectors", "client_vectors")]
        rows.append([contender.title, *kept, f"{sent[0]:.1f}", *map(human_bytes, sent[1:])])
    return rows
