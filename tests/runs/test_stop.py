"""Runs that end where they meet their target."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from tests.helpers.commands import config
from turnout.core.seeds import Seeds
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.experiment.config import read
from turnout.experiment.run import resume, start
from turnout.runs.session import Session

GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.normal(size=(24, 3))
DATA = Dataset("train", ROWS, np.sign(ROWS @ np.array([1.0, -2.0, 0.5]) + 0.3 * GENERATOR.normal(size=24)))
PROBLEM = t.Logistic.of(DATA, Split.of(np.split(np.arange(24), 4), 24), mu=0.1)
ALGORITHM = t.MbGd(t.Nice(2), lr=0.5)
TARGET = t.Target("value", 0.53, stop=True)


@pytest.mark.tiers(quick=[], longer=["nodes"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_a_run_that_stops_is_the_beginning_of_one_that_goes_on(engine):
    whole = t.run(ALGORITHM, PROBLEM, rounds=30, every=3, target=t.Target("value", 0.53), engine=engine)
    stopped = t.run(ALGORITHM, PROBLEM, rounds=30, every=3, target=TARGET, engine=engine)
    hit = TARGET.first_hit(whole.columns)
    assert whole.met is None and hit is not None and 0 < hit < len(whole) - 1
    assert len(stopped) == hit + 1 and stopped.met == stopped.columns["round"][-1] == 3 * hit
    for name, column in stopped.columns.items():
        np.testing.assert_array_equal(column, whole.columns[name][: hit + 1])
    shorter = t.run(ALGORITHM, PROBLEM, rounds=stopped.met, every=3, engine=engine)
    np.testing.assert_array_equal(stopped.x, shorter.x)
    assert stopped.ledger.totals() == shorter.ledger.totals() and stopped.cost() == whole.cost()


@pytest.mark.slow
def test_each_cell_of_a_sweep_stops_by_itself(monkeypatch):
    monkeypatch.setattr("turnout.runs.session.CHUNK_SECONDS", 0.0)
    swept = t.sweep(ALGORITHM, PROBLEM, {"lr": [0.001, 0.3, 0.5]}, rounds=20, target=TARGET)
    lengths = [len(trace) for trace in swept.traces]
    assert lengths[0] == 21 and swept.traces[0].met is None and lengths[2] < lengths[1] < 21
    single = t.run(t.MbGd(t.Nice(2), lr=0.5), PROBLEM, rounds=20, target=TARGET)
    np.testing.assert_array_equal(swept.traces[2].columns["round"], single.columns["round"])
    np.testing.assert_allclose(swept.traces[2].x, single.x, rtol=1e-12)


@pytest.mark.longer
def test_what_stopped_does_not_go_on():
    def session():
        return Session(ALGORITHM, PROBLEM, seeds=Seeds.of(0), rounds=30, target=TARGET)

    first, second = session().run(), session()
    second.restore(first.snapshot())
    assert list(second.play()) == [] and second.trace.met == first.trace.met > 0


@pytest.mark.slow
def test_the_summary_says_so_and_there_is_nothing_to_resume(tmp_path):
    path = config(tmp_path, run={"rounds": 50}, target={"metric": "gradient", "below": 0.01, "stop": True})
    quiet = lambda session: None  # noqa: E731
    start(read(path), tmp_path / "out", None, quiet, "test")
    facts = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert facts["status"] == "stopped at the target" and facts["rounds"] == facts["target"]["round"] < 50
    assert facts["metrics"]["gradient"] < 0.01
    assert read(tmp_path / "out" / "config.toml").target.stop
    assert resume(tmp_path / "out", None, quiet, "test") is None


@given(st.lists(st.floats(0, 1), min_size=1), st.floats(0.01, 1), st.sampled_from(["value", "test_accuracy"]))
def test_the_first_hit_is_the_first_value_that_meets_it(values, below, metric):
    errors = [1 - value if metric == "test_accuracy" else value for value in values]
    hit = t.Target(metric, below).first_hit({metric: np.array(values)})
    assert hit == next((k for k, error in enumerate(errors) if error < below), None)
