"""turnout study, compare and sweep: the commands, the table in the terminal, and the same costs as from Python."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

import turnout as t
from tests.helpers.commands import config, turnout
from tests.helpers.studies import STUDY
from turnout.accounting.prices import Exchanges, Hierarchical
from turnout.experiment.build import build
from turnout.experiment.config import read
from turnout.studies.files import file_name


def written(folder: Path) -> Path:
    path = folder / "study.toml"
    path.write_text(STUDY.replace('"FedAvg"', '"FedAvg with a name that is rather long for a narrow terminal"'))
    return path


@pytest.fixture
def study(tmp_path):
    return written(tmp_path)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The folder of a study that was played in a narrow terminal, and how the command ended."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("turnout.cli.tables.console._width", 80)
        return folder / "out", turnout("study", written(folder), "--out", folder / "out")


@pytest.mark.slow
def test_a_study_writes_runs_tables_and_a_summary_and_its_table_fits(played):
    out, (code, said, wrong) = played
    assert (code, wrong) == (0, ""), wrong
    assert {path.name for path in out.iterdir()} == {
        "runs",
        "ends",
        "runs.parquet",
        "tables",
        "figures.json",
        "report.html",
        "summary.json",
    }
    tables = {path.name for path in (out / "tables").iterdir()}
    drawn = {f"near-{price}.{ending}" for price in ("exchanges", "dear") for ending in ("md", "csv", "tex")}
    assert tables == {*drawn, "matrices.json"}
    assert pl.read_csv(out / "tables" / "near-dear.csv")["method"].to_list() == ["fedavg", "mbgd", "fedavg"]
    lines = said.splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith(("runs:", "tables:", "report:")))
    assert "…" not in said and {*"FedAvg with a name that is rather long for a narrow terminal".split()} <= {*said.split()}
    summary = json.loads((out / "summary.json").read_text())
    assert summary["runs"] == 24 and summary["command"].startswith("turnout study") and not summary["broken"]
    assert [claim["answer"] for claim in summary["claims"]] == ["is not decided"]
    assert "is not decided: 3 seeds are fewer than 5" in summary["claims"][0]["sentence"]


@pytest.mark.slow
def test_a_table_in_latex_has_as_many_cells_in_each_row(played):
    out, _ = played
    text = (out / "tables" / "near-dear.tex").read_text()
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 4 and {len(re.split(r"(?<!\\)&", row)) for row in rows} == {7}
    assert text.isascii() or "≤" in text.split(r"\begin")[0] and text[text.index(r"\begin") :].isascii()


@pytest.mark.slow
def test_a_broken_run_is_reported_and_the_exit_code_is_one(tmp_path, study):
    study.write_text(study.read_text().replace("lr = 1.0 }", "lr = 1.0 }\nfaults = { loss = 0.5 }"))
    code, said, wrong = turnout("study", study, "--out", tmp_path / "out")
    assert (code, wrong) == (1, "") and "broken: mbgd on made with" in said and "replies were lost" in said
    assert pl.read_parquet(tmp_path / "out" / "runs.parquet")["method"].unique().to_list() == ["fedavg"]


def swept(path) -> t.Sweep:
    """Return the sweep of a configuration, played from Python."""
    experiment = read(path)
    problem, grid = build(experiment, None).problem, dict(experiment.sweep)
    seeds = grid.pop("seed")
    named = {name.removeprefix("algorithm."): values for name, values in grid.items()}
    options = {"rounds": experiment.run.rounds, "precision": "double", "target": experiment.target}
    return t.sweep(experiment.algorithm, problem, named, seeds=seeds, **options)


@pytest.mark.longer
def test_compare_sweep_and_study_agree_with_sweeps_from_python(tmp_path):
    prices = [{"kind": "exchanges"}, {"kind": "hierarchical", "c1": 0.5, "c2": 2.0}]
    short = {"run": {"rounds": 12}}
    one = config(tmp_path, "one", sweep={"algorithm.lr": [0.1, 0.3], "seed": [0, 1, 2, 3]}, price=prices, **short)
    other = {"algorithm.lr": [0.2, 0.4], "seed": [0, 1, 2]}
    two = config(tmp_path, "two", algorithm={"kind": "mbgd", "lr": 0.3}, sweep=other, **short)
    for command, files in (("compare", [one, two]), ("study", [one, two]), ("sweep", [one])):
        code, said, wrong = turnout(command, *files, "--out", tmp_path / command)
        assert (code, wrong) == (0, ""), wrong
        for price in (Exchanges(), Hierarchical(c1=0.5, c2=2.0)):
            table = pl.read_csv(tmp_path / command / "tables" / f"distance-0.1-{file_name(price.label)}.csv")
            for path in files:
                costs, mine = swept(path).costs(price), table.filter(pl.col("method") == path.stem)
                assert mine["cost"].min() == costs["cost"][0]
                if command == "sweep":
                    assert mine["cost"].to_list() == costs["cost"].to_list()
                    assert mine["algorithm.lr"].to_list() == costs["lr"].to_list()


def test_a_study_of_a_study_and_configurations_is_refused(tmp_path, study):
    code, _, wrong = turnout("study", study, config(tmp_path), "--out", tmp_path / "out")
    assert code == 2 and "is a whole study" in wrong and not (tmp_path / "out").exists()
