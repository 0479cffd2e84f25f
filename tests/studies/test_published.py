"""The published results: a cheap part of each study, played again, gives the rows that are stored."""

import json
import tomllib
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.helpers.commands import start

ROOT = Path(__file__).parents[2]

RESULTS = ROOT / "results"

NEED_DATA = (
    "cohort-squeeze",
    "cohort-squeeze-networks-perceptron",
    "compression",
    "cost-aware-mushrooms",
    "feddcd",
    "feddcd-heterogeneity",
    "feddcd-two-classes",
    "second-order",
    "sketched-newton",
)

PARTS = {
    "cost-aware": ("n-10", "adaptive"),
    "cost-aware-mushrooms": ("mushrooms", "adaptive"),
    "cohort-squeeze": ("a6a", "css-newton"),
    "cohort-squeeze-networks-perceptron": ("writers-long", "prox-mimelite-adam"),
    "sketched-newton": ("w8a-rows", "sketched-newton"),
    "k-vib": ("size-weights", "full"),
    "feddcd": ("mnist", "feddcd"),
    "feddcd-two-classes": ("mlp-two", "feddcd"),
    "feddcd-heterogeneity": ("sorted-0", "point-saga"),
    "advice": ("wine", "theorem"),
    "cohort-size": ("diabetes", "adaptive"),
    "compression": ("ijcnn1", "compressed"),
    "second-order": ("a6a", "disco"),
    "cost-aware-regimes": ("steep-1", "lazy-dane"),
}
"""The problem and the method of each study that are played again."""

MINUTES = 60
"""So many that all seeds are played within a fortieth of them, which is what a first row is given, also beside other tests."""


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
    chosen = ("--problems", problem, "--methods", method, "--minutes", MINUTES, *data)
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
    """Rows `| problem | NAMES: cost | ...`, first in exchanges, then in bytes: the least median costs of the published tables."""
    page = (ROOT / "docs" / "choosing.md").read_text().splitlines()
    declared = tomllib.loads((ROOT / "examples" / "second-order" / "study.toml").read_text())
    titles = {name: method["title"] for name, method in declared["methods"].items()}
    for name, problem in declared["problems"].items():
        rows = [line.split("|")[2:5] for line in page if line.startswith(f"| {problem['title']} |")]
        for price, row in zip(("exchanges", "bytes"), rows, strict=True):
            for goal, cell in zip(("1e-3", "1e-6", "1e-12"), row, strict=True):
                costs = pl.read_csv(RESULTS / "second-order" / "tables" / f"to-{goal}-{price}.csv", infer_schema_length=None)
                costs = costs.filter(pl.col("problem") == name)
                best = costs.filter(pl.col("cost") == costs["cost"].min())
                names, cost = ", ".join(titles[method] for method in best["method"].unique(maintain_order=True)), best["cost"][0]
                assert cell.strip() == f"{names}: {in_bytes(cost) if price == 'bytes' else format(cost, ',.0f')}"


def in_bytes(count: float) -> str:
    return f"{count / 1e6:.3g} MB" if count >= 1e6 else f"{count / 1e3:.3g} kB"
