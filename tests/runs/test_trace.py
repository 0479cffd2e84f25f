"""Traces grow by pieces, and what was read of them before stays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from turnout.runs.trace import Trace


@given(st.lists(st.integers(0, 40), max_size=12))
def test_a_trace_is_its_pieces_one_after_the_other_and_earlier_columns_stay(sizes):
    generator, trace, pieces, seen = np.random.default_rng(0), Trace(()), [], []
    for size in sizes:
        pieces.append({"round": generator.integers(0, 9, size), "value": generator.normal(size=(size, 2))})
        trace.extend(pieces[-1])
        seen.append(trace.columns)
    for many, columns in enumerate(seen, 1):
        for name, column in columns.items():
            np.testing.assert_array_equal(column, np.concatenate([piece[name] for piece in pieces[:many]]))


def test_a_trace_of_many_pieces_copies_each_row_a_few_times_only():
    trace, seen = Trace(()), [None]
    for k in range(1000):
        trace.extend({"round": np.full(3, k)})
        if trace.columns["round"].base is not seen[-1]:
            seen.append(trace.columns["round"].base)
    assert len(trace) == 3000 and len(seen) <= 13


def test_columns_from_a_checkpoint_are_not_written_into():
    whole = np.arange(10)
    trace = Trace((), columns={"round": whole[:4]})
    trace.extend({"round": np.array([7, 7])})
    assert trace.columns["round"].tolist() == [0, 1, 2, 3, 7, 7] and whole.tolist() == list(range(10))
