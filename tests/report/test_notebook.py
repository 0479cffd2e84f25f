"""What notebooks show of runs, sweeps and studies: a table and a chart, small and without anything from elsewhere."""

import re
from html import escape

import numpy as np
import pytest

import turnout as t
from turnout.studies.conduct import Progress
from turnout.studies.progress import shown


@pytest.fixture(scope="module")
def problem() -> t.Problem:
    return t.Quadratic.random(12, 5, seed=1)


@pytest.fixture(scope="module")
def trace(problem) -> t.Trace:
    return t.run(t.MbGd(t.Nice(4), lr=0.1), problem, rounds=300, metrics=("gradient",))


@pytest.fixture(scope="module")
def sweep(problem) -> t.Sweep:
    return t.sweep(t.MbGd(t.Nice(4), lr=0.1), problem, {"lr": [0.01 * k for k in range(1, 16)]}, seeds=range(3), rounds=100)


@pytest.fixture(scope="module")
def study(problem) -> t.Study:
    methods = {"gd <b>": t.Gd(t.Full(), lr=0.1), "mbgd": t.MbGd(t.Nice(4), lr=0.05)}
    goals = {"near": {"metric": "gradient", "share": 0.5}}
    return t.study({"seeds": 2, "run": {"rounds": 150}, "problems": {"made": problem}, "methods": methods, "goals": goals})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trace", "sweep", "study"])
def test_a_notebook_shows_a_small_table_and_a_chart(name, request):
    html = request.getfixturevalue(name)._repr_html_()
    assert html.count("<table") == html.count("<svg") == 1
    assert "http" not in html and "<script" not in html and "<b>" not in html
    assert len(html) < 60_000


@pytest.mark.longer
def test_the_table_of_a_run_is_its_last_row(trace):
    cells = re.findall(r"<td>(.*?)</td>", trace._repr_html_())
    assert cells[:3] == ["run", "1", "300"] and float(cells[3]) == pytest.approx(trace.metrics["gradient"], rel=1e-3)


@pytest.mark.slow
def test_the_table_of_a_sweep_has_medians_over_the_seeds(sweep):
    rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>", sweep._repr_html_())
    assert len(rows) == 12 and "The first 12 of 15 rows" in sweep._repr_html_()
    last = sorted(
        trace.metrics["value"] for cell, trace in zip(sweep.cells, sweep.traces, strict=True) if cell.settings["lr"] == 0.02
    )
    assert rows[1][:3] == ("lr=0.02", "3", "100") and float(rows[1][3]) == pytest.approx(last[1], rel=1e-3)


@pytest.mark.longer
def test_reprs_are_one_short_line(trace, sweep):
    assert repr(trace).startswith("Trace('run', round=300, gradient=")
    assert repr(sweep).startswith("Sweep(45 runs, lr=[0.01, 0.02, ") and "seed=[0, 1, 2]" in repr(sweep)
    assert len(repr(trace)) < 100 and len(repr(sweep)) < 200 and "\n" not in repr(sweep)


@pytest.mark.longer
def test_a_chart_of_several_runs_has_the_cost_and_the_metric_of_each(problem, trace):
    price = t.LinearPrice(exchanges=1.0, contacts=0.5)
    runs = {"mbgd": trace, "gd": t.run(t.Gd(t.Full(), lr=0.1), problem, rounds=2, metrics=("gradient", "value"))}
    drawn = t.chart(runs, price).to_dict()
    (rows,) = drawn["datasets"].values()
    points = [(row["x"], row["median"]) for row in rows if row["label"] == "gd"]
    np.testing.assert_allclose(points, list(zip([0, 1 + 6, 2 + 12], runs["gd"].columns["gradient"], strict=True)), rtol=1e-3)
    assert {row["label"] for row in rows} == {"mbgd", "gd"} and "cost" in str(drawn["concat"][0]["encoding"]["x"])


def test_a_chart_needs_runs_with_one_metric(trace):
    with pytest.raises(t.UserError, match="nothing to draw"):
        t.chart({})
    with pytest.raises(t.UserError, match="unknown metric of all these runs 'accuracy'"):
        t.chart({"one": trace}, metric="accuracy")


def test_a_run_without_rows_is_shown_by_its_name(trace):
    empty = type(trace)(trace.sites, label="soon")
    assert repr(empty) == empty._repr_html_() == "Trace('soon', no round was played)"


@pytest.mark.slow
def test_a_table_of_a_study_is_a_table(study):
    """With the names of methods as text, and with its notes."""
    html = study.table()._repr_html_()
    assert html.count("<table") == 1 and "&lt;b&gt;" in html and "<b>" not in html
    assert all(escape(note) in html for note in study.table().notes)


def test_a_study_says_nothing_in_a_notebook_without_widgets(monkeypatch, problem, capsys):
    """Where rich would warn."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("turnout.studies.progress.find_spec", lambda name: None)
    with shown() as watch:
        watch(Progress(runs=1, all_runs=2, rounds=3, all_rounds=4))
    assert capsys.readouterr() == ("", "")
