"""Studies and comparisons by metrics of one's own."""

import numpy as np
import polars as pl
import pytest

import turnout as t
from turnout.studies.pictures import figures_of

PROBLEM = t.Quadratic.random(12, 5)

NEAR = """
import numpy as np

def near(x):
    return {factor} / (0.2 + np.abs(x).max())
"""


def tables(**goal):
    return {
        "seeds": 5,
        "run": {"rounds": 12, "metrics": ["value"]},
        "problems": {"made": PROBLEM},
        "methods": {
            "drawn": {"algorithm": t.MbGd(t.Nice(4), lr=0.1), "grid": {"algorithm.lr": [0.1, 0.2]}},
            "whole": t.Gd(t.Full(), lr=0.2),
        },
        "goals": {"near": {"metric": "own.py:near", **goal}},
    }


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write the metric with a factor into a folder of its own, and go there."""

    def place(factor):
        folder = tmp_path / f"times-{factor}"
        folder.mkdir()
        (folder / "own.py").write_text(NEAR.format(factor=factor))
        monkeypatch.chdir(folder)

    return place


def first_rounds(factor, below):
    """The first round of each setting and seed at which NumPy's metric of the parameters is below the level."""
    near = t.Metric("near", lambda x: factor / (0.2 + np.abs(x).max()))
    found = {}
    for lr in (0.1, 0.2):
        for seed in range(5):
            trace = t.run(t.MbGd(t.Nice(4), lr=lr), PROBLEM, rounds=12, seed=seed, metrics=(near,))
            hits = np.flatnonzero(trace.columns["near"] < below)
            found[lr, seed] = trace.columns["round"][hits[0]] if hits.size else np.inf
    return found


@pytest.mark.longer
def test_costs_are_those_of_the_metric_in_each_run(own, tmp_path):
    """With another function of the same name the runs are played again."""
    for factor in (1.0, 0.7):
        own(factor)
        played = t.study(tables(below=1.1), tmp_path / "out")
        expected = first_rounds(factor, 1.1)
        assert len({*expected.values()}) > 2
        assert played.runs.filter(pl.col("round") == 0).height == 15
        costs = {row["setting"]: row for row in played.costs().filter(pl.col("method") == "drawn").rows(named=True)}
        for lr in (0.1, 0.2):
            each = [expected[lr, seed] for seed in range(5)]
            row = costs[f"lr = {lr}"]
            assert (row["cost"], row["reached"], row["seeds"]) == (np.median(each), np.isfinite(each).sum(), 5)
    assert "own.py:near" in (tmp_path / "out" / "report.html").read_text()
    assert [figure.key for figure in figures_of(played)] == ["own.py-near-exchanges"]


def test_a_metric_that_other_processes_do_not_find_is_refused():
    metric = t.Metric("near", np.max)
    for wrong in (metric, np.max):
        with pytest.raises(t.UserError, match="is an object: in a study write 'file.py:NAME'"):
            t.study(tables(below=1.0) | {"run": {"metrics": ["value", wrong]}})
    with pytest.raises(t.UserError, match="metric 'near' is an object"):
        t.study(tables() | {"goals": {"near": {"metric": metric}}})
