"""`--json`: one JSON value on the standard output, with the numbers of the files."""

import json

import pytest

from tests.helpers.commands import config, turnout
from turnout.cli import ORDER, command_line
from turnout.experiment.provenance import provenance

WITHOUT_A_TABLE = {
    "figures",
    "model",
    "new-federation",
    "superlink",
    "node",
    "hub",
    "certify",
    "register",
    "revoke",
    "sum-key",
    "schema",
    "service",
}


def asked(*arguments):
    """Run a command with --json, and read its output, of which JSON is all."""
    code, out, _ = turnout(*arguments, "--json")
    assert code == 0, out
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A run: its folder, and what it printed."""
    folder = tmp_path_factory.mktemp("run")
    return folder / "out", asked("run", config(folder), "--out", folder / "out")


def test_every_command_that_prints_a_table_has_the_option():
    group = command_line()
    assert {name for name in ORDER if name != "data" and not has_option(group.commands[name])} == WITHOUT_A_TABLE
    assert has_option(group.commands["data"].commands["list"])  # type: ignore


def has_option(command) -> bool:
    return any("--json" in parameter.opts for parameter in command.params)


@pytest.mark.longer
def test_a_run_prints_its_summary(played):
    folder, printed = played
    assert printed == {"folder": str(folder), **json.loads((folder / "summary.json").read_text())}
    assert printed.items() >= provenance().items()


def test_a_finished_run_that_is_resumed_prints_its_summary_again(played):
    folder, printed = played
    assert asked("resume", folder) == printed


@pytest.mark.longer
def test_seconds_are_in_the_summary_alone(tmp_path):
    assert {"import", "rounds"} <= {*asked("run", config(tmp_path), "--out", tmp_path / "out", "--timing")["timing"]}


def test_a_description_has_the_counts_that_the_run_has(played, tmp_path):
    _, printed = played
    (described,) = asked("describe", config(tmp_path))
    assert described["costs"]["exchanges"]["least"] == printed["ledger"]["totals"]["exchanges"]


def test_theory_prints_what_it_writes(tmp_path):
    printed = asked(
        "theory", config(tmp_path, algorithm={"kind": "sppm", "gamma": 1.0, "solver": "lbfgs"}), "--out", tmp_path / "out"
    )
    written = json.loads((tmp_path / "out" / "theory.json").read_text())
    assert printed.items() >= {key: value for key, value in written.items() if key != "command"}.items()
    assert printed["advice"]["sampler"]


def test_a_sweep_prints_the_cost_of_each_method(tmp_path):
    file = config(tmp_path, run={"rounds": 3}, target={"metric": "distance", "below": 1e9})
    printed = asked("sweep", file, "--set", "algorithm.lr=0.1,0.2", "--seeds", "0,1", "--out", tmp_path / "out")
    (table,) = printed["costs"]
    assert {row["cost"] for row in table["rows"]} == {0} and printed["runs"] == 4


@pytest.mark.parametrize("arguments", [("data", "list"), ("verify",), ("study", "--list"), ("reproduce",)], ids=" ".join)
def test_lists_are_values(arguments):
    assert asked(*arguments)


def test_a_mistake_is_told_as_ever(tmp_path):
    code, out, err = turnout("run", tmp_path / "none.toml", "--out", tmp_path / "out", "--json")
    assert code == 2 and not out and err.startswith("turnout: ")
