"""turnout study: the command, its terminal table, and comparisons of sweeps."""

import json
import re

import polars as pl
import pytest

from tests.helpers.commands import config, turnout
from tests.helpers.studies import STUDY
from turnout.report.loaded_run import Result


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace('"FedAvg"', '"FedAvg with a name that is rather long for a narrow terminal"'))
    return path


def test_a_study_writes_runs_tables_and_a_summary_and_its_table_fits(tmp_path, study, monkeypatch):
    monkeypatch.setattr("turnout.cli.tables.console._width", 80)
    out = tmp_path / "out"
    code, said, wrong = turnout("study", study, "--out", out)
    assert (code, wrong) == (0, ""), wrong
    assert {path.name for path in out.iterdir()} == {"runs", "runs.parquet", "tables", "figures", "report.html", "summary.json"}
    tables = {path.name for path in (out / "tables").iterdir()}
    assert tables == {f"near-{price}.{ending}" for price in ("exchanges", "dear") for ending in ("md", "csv", "tex")}
    assert pl.read_csv(out / "tables" / "near-dear.csv")["method"].to_list() == ["fedavg", "mbgd", "fedavg"]
    lines = said.splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith(("runs:", "tables:", "report:")))
    assert "…" not in said and {*"FedAvg with a name that is rather long for a narrow terminal".split()} <= {*said.split()}
    summary = json.loads((out / "summary.json").read_text())
    assert summary["runs"] == 24 and summary["command"].startswith("turnout study") and not summary["broken"]
    assert len(summary["claims"]) == 1 and "is not decided: 3 seeds are fewer than 5" in summary["claims"][0]


def test_a_table_in_latex_has_as_many_cells_in_each_row(tmp_path, study):
    out = tmp_path / "out"
    assert turnout("study", study, "--out", out)[0] == 0
    text = (out / "tables" / "near-dear.tex").read_text()
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 4 and {len(re.split(r"(?<!\\)&", row)) for row in rows} == {7}
    assert text.isascii() or "≤" in text.split(r"\begin")[0] and text[text.index(r"\begin") :].isascii()


def test_a_broken_run_is_reported_and_the_exit_code_is_one(tmp_path, study):
    study.write_text(study.read_text().replace("lr = 1.0 }", "lr = 1.0 }\nfaults = { loss = 0.5 }"))
    code, said, wrong = turnout("study", study, "--out", tmp_path / "out")
    assert (code, wrong) == (1, "") and "broken: mbgd on made with" in said and "replies were lost" in said
    assert pl.read_parquet(tmp_path / "out" / "runs.parquet")["method"].unique().to_list() == ["fedavg"]


def test_a_comparison_of_sweeps_a_study_of_them_and_their_summaries_agree(tmp_path):
    prices = [{"kind": "exchanges"}, {"kind": "hierarchical", "c1": 0.5, "c2": 2.0}]
    one = config(tmp_path, "one", sweep={"algorithm.lr": [0.1, 0.3], "seed": [0, 1, 2, 3]}, price=prices, run={"rounds": 12})
    two = config(
        tmp_path,
        "two",
        algorithm={"kind": "mbgd", "lr": 0.3},
        sweep={"algorithm.lr": [0.2, 0.4], "seed": [0, 1, 2]},
        run={"rounds": 12},
    )
    code, said, wrong = turnout("compare", one, two, "--out", tmp_path / "compared")
    assert (code, wrong) == (0, ""), wrong
    code, _, wrong = turnout("study", one, two, "--out", tmp_path / "study")
    assert (code, wrong) == (0, ""), wrong
    table = pl.read_csv(tmp_path / "study" / "tables" / "distance-0.1-exchanges.csv")
    for name in ("one", "two"):
        facts = json.loads((tmp_path / "compared" / name / "summary.json").read_text())
        result = Result.read(tmp_path / "compared" / name)
        assert result.label == name == facts["name"]
        for price in result.prices:
            least = min(row["cost"] for row in facts["sweep"]["costs"][price.label] if row["cost"] is not None)
            assert result.cost(price) == least
        cheapest = facts["sweep"]["costs"]["exchanges"][0]["cost"]
        assert table.filter(pl.col("method") == name)["cost"].item() == cheapest
        assert re.search(rf"{name} .*\b{cheapest:g}\b", said)


def test_a_study_of_a_study_and_configurations_is_refused(tmp_path, study):
    code, _, wrong = turnout("study", study, config(tmp_path), "--out", tmp_path / "out")
    assert code == 2 and "is a whole study" in wrong and not (tmp_path / "out").exists()
