"""Metrics of rows that no client trains on."""

import numpy as np
import pytest

import turnout as t
from turnout.core.errors import UserError
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.experiment.problem_specs import LogisticSpec

GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.normal(size=(40, 3))
LABELS = np.sign(ROWS @ np.array([1.0, -2.0, 0.5]))
DATA = Dataset("train", ROWS[:24], LABELS[:24])
HELD = Dataset("held", ROWS[24:], LABELS[24:])
SPEC = LogisticSpec(data="train", mu=0.1)
SPLIT = Split.of(np.split(np.arange(24), 4), 24)


@pytest.mark.tiers(quick=[], longer=["compiled"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_they_are_the_mean_loss_and_the_share_classified_rightly(engine):
    problem, held = SPEC.build(DATA, SPLIT), SPEC.to_test(HELD, DATA)
    trace = t.run(t.MbGd(t.Nice(2), lr=0.5), problem, rounds=3, test=held, engine=engine)
    margins = HELD.labels * (HELD.features @ trace.x)
    assert trace.metrics["test_value"] == pytest.approx(np.mean(np.log1p(np.exp(-margins))), rel=1e-12)
    assert trace.metrics["test_accuracy"] == np.mean(margins > 0)


@pytest.mark.longer
def test_a_sweep_tests_too_and_a_target_may_be_on_it():
    problem, held, target = SPEC.build(DATA, SPLIT), SPEC.to_test(HELD, DATA), t.Target("test_accuracy", 0.3)
    swept = t.sweep(t.MbGd(t.Nice(2), lr=0.5), problem, {"lr": [0.5, 1.0]}, rounds=3, test=held, target=target)
    single = t.run(t.MbGd(t.Nice(2), lr=1.0), problem, rounds=3, test=held, target=target)
    np.testing.assert_allclose(swept.traces[1].columns["test_value"], single.columns["test_value"], atol=1e-13)
    errors = 1 - single.columns["test_accuracy"]
    assert target.first_hit(single.columns) == int(np.argmax(errors < 0.3))


def test_what_cannot_be_tested_is_said():
    with pytest.raises(UserError, match="needs rows to test with"):
        t.run(t.MbGd(t.Nice(2), lr=0.5), SPEC.build(DATA, SPLIT), rounds=1, metrics=("test_value",))
    with pytest.raises(UserError, match="held has the label .*, which .* lacks"):
        SPEC.to_test(Dataset("held", HELD.features, HELD.labels + 1), DATA)


def test_columns_are_scaled_by_the_mean_and_deviation_of_the_training_rows():
    test = LogisticSpec(data="train", normalize="columns").to_test(HELD, DATA.normalized("columns"))
    expected = (HELD.features - DATA.features.mean(axis=0)) / DATA.features.std(axis=0)
    np.testing.assert_allclose(np.asarray(test.rows[0]), expected, rtol=1e-12)
