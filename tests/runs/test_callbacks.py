"""Callbacks see every row once, end runs at the same row whatever the clock says, and keep the best parameters."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from tests.helpers.examples import logistic, quadratic
from turnout.runs.session import Session

RUN = {"rounds": 30, "seed": 2, "metrics": ("value", "gradient")}


def algorithm(lr=0.05):
    return t.FedAvg(t.Nice(3), lr=lr, steps=2)


class Recorder(t.Callback):
    """Remembers what it was told."""

    def __init__(self, ends_at=None):
        self.frames, self.events, self.ends_at = [], [], ends_at

    def on_start(self, session):
        self.events.append("start")

    def on_rows(self, session, rows):
        self.frames.append(rows)
        return self.ends_at is not None and rows["round"][-1] >= self.ends_at

    def on_end(self, session):
        self.events.append("end")


@pytest.mark.tiers(quick=[], longer=["compiled"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_all_rows_are_told_once_and_change_nothing(engine):
    recorder = Recorder()
    trace = t.run(algorithm(), quadratic(), engine=engine, callbacks=[recorder], **RUN)
    assert pl.concat(recorder.frames).equals(trace.frame) and recorder.events == ["start", "end"]
    assert trace.frame.equals(t.run(algorithm(), quadratic(), engine=engine, **RUN).frame)


class Interrupting(t.Callback):
    def on_rows(self, session, rows):
        raise KeyboardInterrupt


def test_the_end_is_told_where_a_run_is_interrupted():
    recorder = Recorder()
    with pytest.raises(KeyboardInterrupt):
        t.run(algorithm(), quadratic(), callbacks=[recorder, Interrupting()], **RUN)
    assert recorder.events == ["start", "end"] and len(recorder.frames) == 1


def oracle_stop(values, patience, least):
    """The row at which the best value so far is `patience` rows old, by the definition."""
    best, at = values[0], 0
    for k, value in enumerate(values):
        if value < best - least:
            best, at = value, k
        if k - at >= patience:
            return k
    return len(values) - 1


@pytest.mark.longer
@given(st.integers(1, 6), st.sampled_from([0.0, 1e-2, 10.0]))
def test_a_run_ends_where_the_metric_has_not_improved_for_as_long_as_it_may(patience, least):
    whole = t.run(algorithm(), quadratic(), **RUN).frame
    stopping = t.EarlyStopping("value", patience=patience, min_delta=least)
    trace = t.run(algorithm(), quadratic(), callbacks=[stopping], **RUN)
    last = oracle_stop(whole["value"].to_list(), patience, least)
    assert trace.frame.equals(whole[: last + 1])
    assert trace.stopped == (whole["round"][last] if stopping.waited >= patience else None)


@pytest.mark.tiers(everything=["nodes"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_the_best_parameters_are_those_after_the_best_row(engine, tmp_path):
    best = t.BestParameters("gradient", tmp_path / "best.safetensors")
    trace = t.run(algorithm(0.09), quadratic(), engine=engine, callbacks=[best], **RUN)
    row = int(np.argmin(trace.columns["gradient"]))
    assert (best.round, best.value) == (row, trace.columns["gradient"][row])
    again = t.run(algorithm(0.09), quadratic(), engine=engine, **{**RUN, "rounds": row})
    np.testing.assert_array_equal(best.x, again.x)
    np.testing.assert_array_equal(t.load_model(tmp_path / "best.safetensors", best.x), best.x)


@pytest.mark.longer
def test_the_best_is_that_of_this_run_and_no_number_is_worse_than_any():
    """The metric is 0 / 0 at the start, where x = 0, and grows from then on; a longer run has a better gradient."""
    metric = t.Metric("length", lambda x: np.sum(x**2) / np.any(x) if np.any(x) else np.nan)
    for name in ("length", "gradient"):
        best = t.BestParameters(name)
        for rounds in (30, 10):
            options = {**RUN, "rounds": rounds, "metrics": ("gradient", metric)}
            columns = t.run(algorithm(0.01), quadratic(), callbacks=[best], **options).columns
            assert np.isnan(columns["length"][0]) and best.round == np.nanargmin(columns[name])


@pytest.mark.longer
def test_accuracies_shall_rise():
    best, options = t.BestParameters("accuracy"), {**RUN, "metrics": ("accuracy",)}
    columns = t.run(algorithm(), logistic(), callbacks=[best], **options).columns
    assert columns["accuracy"].min() < columns["accuracy"].max()
    assert (best.value, best.round) == (columns["accuracy"].max(), np.argmax(columns["accuracy"]))
    ended = t.run(algorithm(), logistic(), callbacks=[t.EarlyStopping("accuracy", patience=4)], **options)
    assert len(ended) == 1 + oracle_stop(1 - columns["accuracy"], 4, 0.0)


def test_a_resumed_run_stops_at_the_same_row():
    stopping = t.EarlyStopping("value", patience=3)
    whole = t.run(algorithm(0.09), quadratic(), callbacks=[stopping], **RUN)
    assert whole.stopped is not None and whole.stopped >= 3
    session = Session(algorithm(0.09), quadratic(), **RUN)
    chunks = session.play()
    while session.round < 1:
        next(chunks)
    resumed = Session(algorithm(0.09), quadratic(), callbacks=[t.EarlyStopping("value", patience=3)], **RUN)
    resumed.restore(session.snapshot())
    assert resumed.run().trace.frame.equals(whole.frame)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: t.EarlyStopping("value", patience=0), "patience is a number of rows from 1"),
        (lambda: t.EarlyStopping("value", patience=2, min_delta=-1.0), "min_delta is a number of at least 0"),
        (lambda: t.EarlyStopping("test_value", patience=2), "test_value"),
        (lambda: t.BestParameters("acuracy"), "acuracy"),
        (lambda: "early stopping", "callbacks"),
    ],
)
def test_what_cannot_be_is_one_sentence(make, words):
    with pytest.raises(t.UserError, match=words):
        t.run(algorithm(), quadratic(), callbacks=[make()], **RUN)


def test_a_sweep_takes_no_callbacks():
    with pytest.raises(t.UserError, match="callbacks"):
        t.sweep(algorithm(), quadratic(), {"lr": [0.1]}, rounds=2, callbacks=[Recorder()])
