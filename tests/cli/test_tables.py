"""Tables from the command line: what `turnout data show` prints, and that reported numbers are those of the saved model."""

import json

import numpy as np
import polars as pl
import pytest
from safetensors import safe_open

from tests.data.test_tables import PEOPLE, applied, table
from tests.helpers.commands import turnout

RUN = """
problem = {{kind = "logistic", {data}, {test}, normalize = "columns", held_out = {held_out}}}
split.kind = "natural"
sampler.kind = "full"
algorithm = {{kind = "fedavg", lr = 0.5}}
run = {{rounds = 3, metrics = ["test_value", "held_out_value"]}}
"""


def test_what_a_table_holds_is_shown(tmp_path):
    path = table(tmp_path, PEOPLE)
    code, said, _ = turnout("data", "show", path, "--label", "bought", "--client", "user")
    assert code == 0
    for words in (
        "4 rows, 5 columns",
        "age: numbers, 3 distinct",
        "city: text, 2 distinct, such as 'north', 'south', 1 missing",
        "joined: dates",
        "bought: text, 2 distinct, such as 'yes', 'no' (label)",
        "it cannot be used yet: ",
        "say missing",
    ):
        assert words in said
    path = table(tmp_path, PEOPLE.replace("2024-01-0", ""))
    rules = tmp_path / "rules.json"
    code, said, _ = turnout("data", "show", path, "--label", "bought", "--client", "user", "--missing", "mean", "--save", rules)
    assert code == 0
    for words in (
        "4 rows of 4 features",
        "age: number, as age, missing values become 40.0",
        "city: category, as city=north, city=south",
        "2 classes: no (2), yes (2)",
        "2 clients with 2 to 2 rows",
        f"{rules} has its rules",
    ):
        assert words in said
    assert json.loads(rules.read_text())["columns"][0]["fill"] == 40
    assert "needs no rules" in turnout("data", "show", "iris", "--save", rules)[2]
    code, said, wrong = turnout("data", "show", "irsi")
    assert (code, said) == (2, "") and "unknown data set 'irsi': did you mean 'iris'?" in wrong
    assert "labels from 25 to 346, for regression" in turnout("data", "show", "diabetes")[1]


@pytest.mark.longer
def test_what_a_run_reports_is_what_its_model_gives_on_the_files(tmp_path):
    """Test and held-out rows are encoded by the rules in the model's file, which the training clients alone determine."""
    rows = [*((20 + 3 * k, "abc"[k % 3], "yes" if k % 4 else "no", f"u{k % 5}") for k in range(40)), ("", "b", "no", "u1")]
    text = "age,city,bought,user\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    table(tmp_path, text, "train.csv")
    table(tmp_path, "bought,city,age\nyes,a,33\nno,c,\n", "test.csv")
    file, out = tmp_path / "run.toml", tmp_path / "out"
    entry = '{} = {{kind = "csv", path = "{}", label = "bought"{}}}'
    data = entry.format("data", tmp_path / "train.csv", ', client = "user", missing = "mean"')
    file.write_text(RUN.format(data=data, test=entry.format("test", tmp_path / "test.csv", ""), held_out=1))
    code, _, err = turnout("run", file, "--out", out)
    assert code == 0, err
    with safe_open(out / "model.safetensors", "np") as content:
        facts, x = json.loads(content.metadata()["turnout"]), content.get_tensor("x")
    split = np.load(out / "split.npz")
    training = set(split["indices"].tolist())
    means = facts["preprocessing"]["columns"][0]["fill"]
    assert means == pytest.approx(np.mean([row[0] for k, row in enumerate(rows) if k in training and row[0] != ""]), rel=1e-12)

    def loss(some: list[dict]) -> float:
        margins = [(1 if row["bought"] == "yes" else -1) * (applied(facts, row) @ x) for row in some]
        return float(np.mean(np.log1p(np.exp(-np.array(margins)))))

    named = [dict(zip(("age", "city", "bought"), (row[0] or None, *row[1:3]), strict=True)) for row in rows]
    last = pl.read_parquet(out / "trace.parquet").row(-1, named=True)
    assert last["held_out_value"] == pytest.approx(loss([row for k, row in enumerate(named) if k not in training]), rel=1e-9)
    test = [{"age": 33, "city": "a", "bought": "yes"}, {"age": None, "city": "c", "bought": "no"}]
    assert last["test_value"] == pytest.approx(loss(test), rel=1e-9)
