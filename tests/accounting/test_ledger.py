"""Counters never overflow, and prices are functions of events."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from turnout.accounting.counters import add_events, no_counts, to_ledger
from turnout.accounting.ledger import COUNTERS, EVENTS, Ledger, Site
from turnout.accounting.prices import cost_to_target
from turnout.core.messages import vectors


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40))
def test_counters_carry_beyond_32_bits(numbers):
    counts = no_counts(2)
    for number in numbers:
        counts = add_events(counts, 1, {"contacts": jnp.uint32(number)})
    site = Site("0", "echo", "random", bytes_down=10**15)
    ledger = to_ledger((site, site), np.asarray(counts))
    assert ledger.totals()["contacts"] == sum(numbers)
    assert ledger.totals()["bytes_down"] == 10**15 * sum(numbers)
    assert ledger.rows()[0]["contacts"] == 0


def test_sizes_follow_contacts_down_and_arrivals_up():
    site = Site("0", "echo", "random", vectors_down=2, vectors_up=1, bytes_down=80, bytes_up=48)
    counts = tuple({"contacts": 10, "arrivals": 7}.get(name, 0) for name in COUNTERS)
    totals = Ledger((site,), (counts,)).totals()
    assert (totals["vectors_down"], totals["vectors_up"], totals["bytes_down"], totals["bytes_up"]) == (20, 7, 800, 336)


def test_vectors_are_parts_shaped_like_the_parameters():
    flat = np.zeros(3)
    assert len(vectors((flat, flat, np.zeros(())), flat)) == 2
    assert len(vectors(np.zeros((3, 3)), flat)) == 0
    nested = {"a": np.zeros(2), "b": {"c": np.zeros(())}}
    assert len(vectors(nested, nested)) == 1
    assert len(vectors({"x": nested, "y": (np.zeros(2), nested)}, nested)) == 2
    assert len(vectors(None, flat)) == 0


def events(**given):
    return {name: np.array(given.get(name, [0, 0, 0])) for name in EVENTS}


def test_prices_are_their_formulas():
    trace = events(
        exchanges=[0, 4, 8], cohorts=[0, 1, 2], draws_arbitrary=[0, 3, 6], draws_random=[0, 1, 2], draws_delegate=[0, 2, 4],
        reasks=[0, 3, 6], bytes_down=[0, 100, 200], bytes_up=[0, 50, 100], queries_slowest=[0, 7, 14],
    )  # fmt: skip
    assert t.Exchanges().cost(trace).tolist() == [0, 4, 8]
    np.testing.assert_allclose(t.Hierarchical(c1=0.1, c2=2.0).cost(trace), [0, 2.4, 4.8])
    assert t.Selection(arbitrary=5.0, random=2.0).cost(trace).tolist() == [0, 34, 68]
    assert t.Bytes().cost(trace).tolist() == [0, 150, 300]
    np.testing.assert_allclose(t.Seconds(latency=1.0, bandwidth=50.0, query=0.5).cost(trace), [0, 10.5, 21])
    assert cost_to_target(t.Exchanges(), trace, 1) == 4
    assert cost_to_target(t.Exchanges(), trace, None) is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: t.Hierarchical(c1=-1.0), "at least 0"),
        (lambda: t.Selection(arbitrary=1.0, random=2.0), "random <= arbitrary"),
        (lambda: t.Selection(arbitrary=0.5), "at least 1"),
        (lambda: t.Seconds(bandwidth=0.0), "greater than 0"),
        (lambda: t.Target("gap", 0.0), "greater than 0"),
        (lambda: t.Faults(loss=1.0), "less than 1"),
        (lambda: t.FedAvg(t.Nice(2), lr=float("nan")), "greater than 0"),
    ],
)
def test_values_out_of_bounds_say_so(make, words):
    with pytest.raises(t.UserError, match=words):
        make()


def test_a_target_is_hit_at_the_first_row_below():
    assert t.Target("gap", 0.1).first_hit({"gap": np.array([1.0, 0.05, 0.2])}) == 1
    assert t.Target("gap", 0.1).first_hit({"gap": np.array([1.0, 0.1])}) is None
    assert t.Target("accuracy", 0.1).first_hit({"accuracy": np.array([0.5, 0.95])}) == 1
