"""turnout plan: the command, its files, and that the winner can be run."""

import json

import pytest

from tests.helpers.commands import turnout
from tests.planner.test_planner import TASK
from turnout.experiment.config import read


@pytest.mark.slow
def test_a_plan_writes_a_configuration_that_runs(tmp_path):
    file, out = tmp_path / "task.toml", tmp_path / "out"
    file.write_text(TASK.replace('["fedavg", "lbfgs"]', '["lbfgs"]'))
    code, said, wrong = turnout("plan", file, "--out", out)
    assert (code, wrong) == (0, ""), wrong
    assert {path.name for path in out.iterdir()} == {
        "best.toml", "plan.json", "report.html", "tables", "figures.json", "trials.parquet",
    }  # fmt: skip
    facts = json.loads((out / "plan.json").read_text())
    printed = json.loads(turnout("plan", file, "--out", out, "--json")[1])
    assert printed == {"folder": str(out), **facts, "command": printed["command"], "spent": printed["spent"]}
    assert facts["ranking"][0]["title"] in said.replace("\n", " ") and "best.toml" in said
    assert read(out / "best.toml").target.metric == "gap"
    code, said, wrong = turnout("run", out / "best.toml", "--out", tmp_path / "run")
    assert code == 0 and "gap < 30" in said, wrong
    page = (out / "report.html").read_text()
    assert "What would be best at other prices" in page and "L-BFGS, all clients" in page
    # The same command goes on with what is there.
    assert turnout("plan", file, "--out", out)[0] == 0
    # Its charts can be drawn.
    assert turnout("figures", out)[0] == 0 and (out / "figures" / "front.svg").exists()


def test_a_mistake_is_one_sentence(tmp_path):
    file = tmp_path / "task.toml"
    file.write_text(TASK.replace("[target]", "[goal]"))
    code, _, wrong = turnout("plan", file, "--out", tmp_path / "out")
    assert code == 2 and wrong.startswith("turnout: ") and wrong.count("\n") == 1 and "unknown table 'goal'" in wrong


@pytest.mark.slow
def test_without_runs_the_price_of_a_round_is_told(tmp_path):
    file = tmp_path / "task.toml"
    file.write_text(TASK.replace('["fedavg", "lbfgs"]', '["fedavg-shuffled", "scaffnew"]'))
    code, said, wrong = turnout("plan", file, "--no-runs")
    assert (code, wrong) == (0, ""), wrong
    rows = {line.split()[0]: line.split()[-4:] for line in said.splitlines() if line.startswith(("FedAvg", "Scaffnew"))}
    # A client of Scaffnew keeps its model and a control variate, of 10 doubles each.
    assert rows == {"FedAvg,": ["1", "0", "B", "yes"], "Scaffnew": ["1", "160", "B", "no"]} and "No run was played" in said
    families = json.loads(turnout("plan", file, "--no-runs", "--json")[1])["families"]
    assert [one["bytes of a client"] for one in families] == [0, 160]
    assert turnout("plan", file)[2] == "turnout: there is no folder for the plan: give --out DIR\n"
