"""Metrics of one's own, and what a model is worth to each client, against NumPy."""

import json
import sys

import numpy as np
import polars as pl
import pytest

import turnout as t
from tests.helpers.commands import config, turnout
from tests.runs.test_evaluation_metrics import DATA, HELD, SPEC, SPLIT

PROBLEM, TEST = SPEC.build(DATA, SPLIT), SPEC.to_test(HELD, DATA)
ALGORITHM = t.MbGd(t.Nice(2), lr=0.5)


def error(x, features, labels):
    return np.mean(np.sign(features @ x) != labels)


def largest(x):
    return np.abs(x).max()


def recall(x, features, labels):
    """The share of positive rows that are found, and their number."""
    positive = labels > 0
    return np.mean(features[positive] @ x > 0) if positive.any() else 0.0, positive.sum()


ERROR = t.Metric("error", error, of="test")
METRICS = ("value", t.Metric("largest", largest), t.Metric("recall", recall, "clients"), ERROR)


@pytest.mark.tiers(longer=["compiled"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_they_are_those_of_numpy_in_every_row(engine):
    options = {"rounds": 4, "every": 2, "test": TEST, "metrics": METRICS, "engine": engine}
    trace = t.run(ALGORITHM, PROBLEM, **options)
    assert trace.frame.columns[:5] == ["round", "value", "largest", "recall", "error"]
    for rounds, row in zip((0, 2, 4), trace.frame.iter_rows(named=True), strict=True):
        x = t.run(ALGORITHM, PROBLEM, **{**options, "rounds": rounds}).x
        assert row["largest"] == pytest.approx(np.abs(x).max(), abs=1e-12)
        assert row["error"] == np.mean(np.sign(HELD.features @ x) != HELD.labels)
        assert row["recall"] == pytest.approx(np.mean(DATA.features[DATA.labels > 0] @ x > 0), rel=1e-12)
    assert trace.metrics["error"] == trace.frame["error"][-1] and "error=" in repr(trace)
    assert '"largest"' in t.chart({"run": trace}, metric="largest").to_json()


@pytest.mark.slow
def test_a_target_on_them_ends_runs_and_cells_of_sweeps():
    target = t.Target(ERROR, 0.2, stop=True)
    options = {"rounds": 30, "test": TEST, "metrics": METRICS, "target": target}
    trace = t.run(ALGORITHM, PROBLEM, **options)
    assert trace.frame["error"][-1] < 0.2 <= trace.frame["error"][:-1].min() and trace.met == trace.frame["round"][-1]
    assert trace.cost() == trace.frame["exchanges"][-1]
    swept = t.sweep(ALGORITHM, PROBLEM, {"lr": [0.1, 0.5]}, **{**options, "target": t.Target(ERROR, 0.2)})
    single = t.run(ALGORITHM, PROBLEM, **{**options, "target": t.Target(ERROR, 0.2)})
    assert np.allclose(swept.traces[1].columns["recall"], single.columns["recall"], atol=1e-12)
    on = t.run(ALGORITHM, PROBLEM, **{**options, "target": None}, go_on=trace)
    assert np.array_equal(on.columns["error"], single.columns["error"])


@pytest.mark.longer
def test_a_configuration_names_them(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("import numpy as np\n\n\ndef largest(x):\n    return np.abs(x).max()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = config(
        tmp_path, run={"rounds": 3, "metrics": ["value", "mine:largest"]}, target={"metric": "mine:largest", "below": 9.0}
    )
    assert turnout("run", path, "--out", tmp_path / "out")[0] == 0
    trace, summary = (
        pl.read_parquet(tmp_path / "out" / "trace.parquet"),
        json.loads((tmp_path / "out" / "summary.json").read_text()),
    )
    assert trace["mine:largest"][0] == 0 < trace["mine:largest"][-1] == summary["metrics"]["mine:largest"]
    assert "mine:largest" in (tmp_path / "out" / "figures.json").read_text()
    code, _, said = turnout(
        "run", config(tmp_path, "b", run={"rounds": 3, "metrics": ["mine:smallest"]}), "--out", tmp_path / "b"
    )
    assert code != 0 and "metric 'mine:smallest' is no function" in said


@pytest.mark.tiers(longer=["<lambda>-returns array"])
@pytest.mark.parametrize(
    ("metrics", "sentence"),
    [
        (lambda: (), "a run needs at least one metric"),
        (lambda: (t.Metric("value", largest),), "metric 'value' is one of turnout's"),
        (lambda: (t.Metric("mine", largest, of="rows"),), "say 'parameters', 'clients', 'test' or 'held_out'"),
        (lambda: (t.Metric("mine", error, of="test"),), "needs test rows: give test"),
        (lambda: (t.Metric("mine", lambda x: x),), "returns array"),
        (
            lambda: (t.Metric("mine", lambda x, a, b: 1.0, of="clients"),),
            "returns 1.0 of client 0: return a number and",
        ),
        (lambda: (t.Metric("mine", largest), t.Metric("mine", largest)), "two metrics have the same name"),
        (lambda: ("valu",), "unknown metric 'valu'"),
    ],
)
def test_what_is_no_metric_is_said(metrics, sentence):
    with pytest.raises(t.UserError, match=sentence):
        t.run(ALGORITHM, PROBLEM, rounds=1, metrics=metrics())


def test_a_mistake_in_a_metric_is_told_with_its_line():
    def wrong(x):
        return x.tolist()["a"]

    with pytest.raises(t.UserError, match="test_own_metrics.py, line .*, in wrong: "):
        t.run(ALGORITHM, PROBLEM, rounds=1, metrics=(t.Metric("mine", wrong),))
    with pytest.raises(t.UserError, match="unknown metric 'error'"):
        t.run(ALGORITHM, PROBLEM, rounds=1, target=t.Target(ERROR, 0.1))


@pytest.mark.longer
def test_the_frame_of_clients_is_that_of_numpy():
    trace = t.run(ALGORITHM, PROBLEM, rounds=3, metrics=("value", "accuracy"))
    frame = trace.clients
    margins = DATA.labels * (DATA.features @ trace.x)
    for i in range(PROBLEM.clients):
        own = margins[SPLIT.rows(i)]
        client, rows, loss, accuracy = frame.row(i)
        assert (client, rows, accuracy) == (i, len(own), np.mean(own > 0))
        assert loss == pytest.approx(np.mean(np.log1p(np.exp(-own))) + 0.05 * trace.x @ trace.x, rel=1e-12)
    assert frame["loss"].mean() == pytest.approx(trace.metrics["value"], rel=1e-12)
    kept = t.EachClient(every=2)
    t.run(ALGORITHM, PROBLEM, rounds=3, metrics=("value", "accuracy"), callbacks=[kept])
    assert kept.frame["round"].to_list() == [*[0] * 4, *[2] * 4, *[3] * 4]
    assert kept.frame.filter(pl.col("round") == 3).drop("round").equals(frame)
    assert "accuracy" not in t.run(t.Gd(t.Full(), lr=0.1), t.Quadratic.random(3, 2), rounds=1).clients.columns
    remote = t.Remote.of(np.zeros(3), [PROBLEM.client(i) for i in range(4)], classifies=True)
    asked = t.run(ALGORITHM, remote, rounds=1, engine="nodes")
    with pytest.raises(t.UserError, match="only the clients themselves know"):
        asked.clients  # noqa: B018
