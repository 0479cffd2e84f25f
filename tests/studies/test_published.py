"""The published results: a cheap part of each study, played again, gives the rows that are stored."""

import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.helpers.commands import start

ROOT = Path(__file__).parents[2]

RESULTS = ROOT / "results"

NEED_DATA = ("cohort-squeeze", "compression", "feddcd-heterogeneity", "second-order", "sketched-newton")

PARTS = {
    "cost-aware": ("n-10", "adaptive"),
    "cohort-squeeze": ("a6a", "css-newton"),
    "sketched-newton": ("w8a-rows", "sketched-newton"),
    "feddcd-heterogeneity": ("sorted-0", "point-saga"),
    "advice": ("wine", "theorem"),
    "cohort-size": ("diabetes", "adaptive"),
    "compression": ("ijcnn1", "compressed"),
    "second-order": ("a6a", "disco"),
    "cost-aware-regimes": ("steep-1", "lazy-dane"),
}
"""The problem and the method of each study that are played again."""


def output(*words, **options) -> str:
    """What a command prints that computes for long."""
    command = start(*words, variables={"XLA_FLAGS": ""}, **options)
    out, wrong = command.communicate(timeout=700)
    assert command.returncode == 0, wrong
    return out


@pytest.mark.tiers(quick=[], longer=["cost-aware"])
@pytest.mark.parametrize("name", PARTS)
def test_rows_that_are_played_again_are_the_published_ones(name, request, tmp_path):
    """By the command that anyone can give."""
    data = ["--data", request.getfixturevalue("real_data")] if name in NEED_DATA else []
    problem, method = PARTS[name]
    chosen = ("--problems", problem, "--methods", method, "--minutes", 10, *data)
    out = output("verify", RESULTS / name, *chosen, "--json", cwd=tmp_path)
    tables = [table for table in json.loads(out)["results"][0]["tables"] if table["held"]]
    assert tables and not any(table["not_played"] for table in tables)
    assert {row["verdict"] for table in tables for row in table["held"]} == {"equal"}


@pytest.mark.everything
def test_settings_are_chosen_as_they_were(real_data, tmp_path):
    """The command that is published, with the seeds on which it tunes."""
    name, problem, method = "cohort-squeeze", "a6a", "localgd-stratified-shuffled-decay"
    words = ("reproduce", name, "--problems", problem, "--methods", method, "--data", real_data, "--out", "out")
    output(*words, cwd=tmp_path)
    files = {path.name: pl.read_csv(path, infer_schema_length=None) for path in (tmp_path / "out" / "tables").glob("to-*.csv")}
    assert files
    for file, own in files.items():
        stored = pl.read_csv(RESULTS / name / "tables" / file, infer_schema_length=None)
        stored = stored.filter(pl.col("problem") == problem, pl.col("method") == method)
        assert stored.height == own.height
        assert_frame_equal(own, stored.select(own.columns), rel_tol=1e-6, check_dtypes=False)


def test_every_result_says_how_it_was_made():
    text = (RESULTS / "README.md").read_text()
    folders = sorted(path.name for path in RESULTS.iterdir() if path.is_dir())
    assert folders and all(f"[{name}]({name}" in text for name in folders)


def test_who_wins_among_second_order_methods_is_what_the_page_says():
    """Rows `| problem | goal | NAME, cost | NAME, cost |`: each name has the least median cost of the published table."""
    page = (ROOT / "docs" / "choosing.md").read_text()
    problems = {"a6a": "a6a, clients alike, mu = 0.1", "mushrooms-ill": "mushrooms, clients differ, mu = 0.001"}
    checked = 0
    for name, title in problems.items():
        for goal in ("1e-3", "1e-6", "1e-12"):
            cells = []
            for price in ("exchanges", "bytes"):
                costs = pl.read_csv(RESULTS / "second-order" / "tables" / f"to-{goal}-{price}.csv", infer_schema_length=None)
                best = costs.filter(pl.col("problem") == name).sort("cost", maintain_order=True).row(0, named=True)
                cells.append((best["method"], f"{best['cost']:,.0f}"))
            row = next(line for line in page.splitlines() if line.startswith(f"| {title} | {goal} |"))
            for cell, (method, cost) in zip(row.split("|")[3:5], cells, strict=True):
                assert WORDS[method] in cell and f" {cost} " in f"{cell} ", row
            checked += 1
    assert checked == 6


WORDS = {
    "bfgs": "BFGS",
    "bl1": "BL1",
    "dane": "DANE",
    "fednl": "FedNL",
    "newton": "Newton's method",
    "scaffnew": "Scaffnew",
    "shed": "SHED",
}
"""How the page names methods that win."""
