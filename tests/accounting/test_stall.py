"""Runs that come no nearer to their target are told from slow ones."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from tests.helpers.commands import config, turnout
from turnout.accounting.stall import QUARTERS, stalled


@given(st.floats(0.5, 1.0), st.integers(20, 200), st.floats(1e-12, 1e-3))
def test_a_geometric_fall_stalls_if_it_needs_many_more_quarters(rate, rows, below):
    values = rate ** np.arange(rows)
    quarters = math.log(np.median(values[-(rows // 4) :]) / below) / (-math.log(rate) * (rows // 4)) if rate < 1 else math.inf
    if abs(quarters - QUARTERS) > 1e-6 * QUARTERS:
        assert (stalled(values, below) is not None) == (quarters > QUARTERS)


@pytest.mark.slow
def test_a_floor_of_noise_is_a_stall_and_a_fall_is_none():
    problem, rounds = t.Quadratic.random(12, 5, seed=0), 4000
    noisy = t.run(t.MbGd(t.Nice(2), lr=0.1), problem, rounds=rounds, metrics=("distance",))
    exact = t.run(t.Gd(t.Full(), lr=0.001), problem, rounds=rounds, metrics=("distance",))
    noise, fall = (trace.frame["distance"].to_numpy() for trace in (noisy, exact))
    assert stalled(noise, np.median(noise[rounds // 2 :]) / 100)
    assert stalled(fall, fall[-1] / 100) is None


@pytest.mark.slow
def test_a_run_that_stalls_ends_with_a_sentence(tmp_path):
    path = config(
        tmp_path, sampler={"kind": "nice", "size": 1}, run={"rounds": 100}, target={"metric": "distance", "below": 1e-6}
    )
    code, said, _ = turnout("run", path, "--out", tmp_path / "out")
    assert code == 0 and "made stalls: distance went from" in " ".join(said.split())
    assert "stalls" in (tmp_path / "out" / "report.html").read_text()
