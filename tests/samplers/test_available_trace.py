"""Availability by a trace: who is there when, in rounds and in seconds, and the weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from tests.helpers.federations import ENGINES, counted, four, play
from tests.helpers.gradients import client_gradient
from turnout.samplers.intervals import table_of

TRACE = np.array([[0, 0, 2], [0, 3, 4], [1, 1, 4], [2, 0, 4], [3, 2, 3]], float)
"""Rows of client, from and to."""


def there(time: float, period: float = 4.0) -> list[bool]:
    return [any(i == client and begin <= time % period < end for i, begin, end in TRACE) for client in range(4)]


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_who_is_available_follows_the_trace(engine):
    sampler = t.Available(t.Full(), trace=TRACE)
    session = play(t.FedVarp(sampler, lr=0.01, steps=1, memory="clients"), four(), 6, engine=engine)
    counts = np.diff(session.trace.frame["available"])
    assert counts.tolist() == [sum(there(round)) for round in range(6)]


@pytest.mark.longer
def test_the_sum_over_a_period_is_unbiased():
    """Each client counts 1 / q_i in the rounds in which it is there: in a period as often as once a round."""
    algorithm = t.MbGd(t.Available(t.Full(), trace=TRACE), lr=1e-7)
    x = play(algorithm, four(), 4).trace.x
    shares, gradients = np.array([0.4, 0.3, 0.2, 0.1]), [client_gradient(four(), i, np.zeros(3)) for i in range(4)]
    np.testing.assert_allclose(x, -4 * 1e-7 * sum(w * g for w, g in zip(shares, gradients, strict=True)), rtol=1e-5)


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_seconds_are_those_on_the_clock_and_the_server_waits_where_nobody_is(engine):
    """A round takes 3 s: it starts at 0, 3, 6 and 9 s; at 6 nobody is there until 10 = 8 + 2, since the trace repeats after 8."""
    trace = [[0, 2, 3.5], [1, 0, 4], [2, 0, 1], [3, 3, 4]]
    sampler = t.Available(t.Full(), trace=trace, unit="seconds", period=8.0)
    session = play(t.MbGd(sampler, lr=0.01), four(), 4, engine=engine, devices=t.Devices(latency=3.0))
    frame = session.trace.frame
    assert frame["seconds"].to_list() == [0.0, 3.0, 6.0, 11.0, 14.0]
    assert np.diff(frame["available"]).tolist() == [2, 3, 2, 3]
    waits = [row for row in counted(session).values() if row["method"] == "wait"]
    assert [row["microseconds"] for row in waits] == [2_000_000]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=12), st.integers(0, 6))
def test_the_table_holds_the_union_of_the_intervals(rows, further):
    trace = np.array([*((i, begin, begin + length) for i, begin, length in rows), *((i, 0, 1) for i in range(3))], float)
    period = trace[:, 2].max() + further
    table, used, share = table_of(trace, 3, period, whole=True)
    assert used == period
    for client in range(3):
        inside = [any(i == client and a <= k < b for i, a, b in trace) for k in range(int(period))]
        assert [bool(np.any((table[client, :, 0] <= k) & (k < table[client, :, 1]))) for k in range(int(period))] == inside
        assert share[client] == pytest.approx(np.mean(inside))


@pytest.mark.longer
def test_a_file_is_read_as_the_array(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text("client,from,to\n" + "\n".join(",".join(f"{value:g}" for value in row) for row in TRACE))
    one, other = (play(t.MbGd(t.Available(t.Nice(2), trace=trace), lr=0.05), four(), 5).trace for trace in (TRACE, str(file)))
    assert one.ledger == other.ledger
    np.testing.assert_array_equal(one.x, other.x)


BAD = {
    "never": ({"trace": TRACE[:4]}, "client 3 is never available"),
    "short period": ({"trace": TRACE, "period": 3.0}, "at least its last end, 4"),
    "order": ({"trace": [[0, 2, 1]]}, "0 <= from < to"),
    "client": ({"trace": [[4, 0, 1]]}, "a client from 0 to 3"),
    "shape": ({"trace": [[0, 1]]}, "rows of client, from and to"),
    "both": ({"trace": TRACE, "probability": 0.5}, "leave probability and memory out"),
    "neither": ({}, "a probability, or a trace"),
    "no clock": ({"trace": TRACE, "unit": "seconds"}, "needs a clock"),
    "no file": ({"trace": "none.csv"}, "cannot be read"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_trace_is_one_sentence(name):
    options, words = BAD[name]
    with pytest.raises(t.UserError, match=words):
        play(t.MbGd(t.Available(t.Nice(2), **options), lr=0.05), four(), 1)


@pytest.mark.parametrize(
    ("line", "words"),
    [("0,1,1", "line 2: an interval ends after"), ("9,0,1", "line 2: client '9'"), ("0,x,1", "line 2: from must be a number")],
)
def test_a_bad_line_is_named(tmp_path, line, words):
    file = tmp_path / "trace.csv"
    file.write_text(f"client,from,to\n{line}\n")
    with pytest.raises(t.UserError, match=words):
        t.Available(t.Nice(2), trace=file).bind(four().population)
