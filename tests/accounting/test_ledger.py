"""Counters never overflow, and prices are functions of events."""

from dataclasses import FrozenInstanceError, fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from turnout.accounting.counters import add_events, elapsed, in_limbs, limbs, no_counts, to_ledger, whole
from turnout.accounting.ledger import COUNTERS, EVENTS, Ledger, Site
from turnout.accounting.prices import cost_to_target
from turnout.core.messages import vectors


@pytest.mark.longer
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40), st.integers(0, 2**40))
def test_counts_and_bytes_never_overflow(numbers, size):
    counts = no_counts(2)
    for number in numbers:
        counts = add_events(counts, 1, {"contacts": jnp.uint32(number)})
    site = Site("0", "echo", "random", bytes_down=size)
    ledger = to_ledger((site, site), np.asarray(counts))
    assert ledger.totals()["contacts"] == sum(numbers)
    assert ledger.totals()["bytes_down"] == size * sum(numbers)
    history = to_ledger((site, site), np.asarray(counts)[None]).totals()
    assert history["contacts"].tolist() == [sum(numbers)] and history["bytes_down"].tolist() == [size * sum(numbers)]
    assert ledger.rows()[0]["contacts"] == 0


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=4))
def test_an_event_beyond_32_bits_is_counted_in_two_limbs(numbers):
    counts = no_counts(1)
    for number in numbers:
        counts = add_events(counts, 0, {"microseconds": jnp.asarray(in_limbs(number)), "contacts": jnp.uint32(1)})
    totals = to_ledger((Site("0", "echo", "random"),), np.asarray(counts)).totals()
    assert (totals["microseconds"], totals["contacts"]) == (sum(numbers), len(numbers))
    with jax.enable_x64(True):
        assert float(elapsed(counts)) == pytest.approx(sum(numbers) / 1e6)
        np.testing.assert_array_equal(whole(jnp.moveaxis(limbs(jnp.asarray(numbers)), 0, -1)), numbers)


def counted(**events: int) -> tuple[int, ...]:
    """The counts of a site, zero for those that are not named."""
    return tuple(events.get(name, 0) for name in COUNTERS)


def test_links_and_peaks_are_their_sums_and_their_largest_messages():
    """The link of a level carries a message to each hub, and what each client is sent for itself."""
    sites = (
        Site("0", "train", "random", bytes_down=80, bytes_up=48),
        Site("1", "unused", "random", bytes_down=800, bytes_up=480),
        Site("0", "link", "random", bytes_down=70, bytes_up=40, level=1, bytes_each=9),
        Site("1", "link", "random", bytes_down=7, bytes_up=4, level=1),
        Site("0", "link", "random", bytes_down=60, bytes_up=30, level=2),
    )
    counts = (
        counted(contacts=10, arrivals=7),
        counted(),
        counted(exchanges=2, contacts=3, arrivals=2, drawn=10, microseconds=1_500_000),
        counted(exchanges=1, contacts=5, arrivals=4),
        counted(exchanges=3, contacts=1, arrivals=1),
    )
    ledger = Ledger(sites, counts)
    first = {"server_exchanges": 3, "server_contacts": 8, "server_arrivals": 6}
    first |= {"server_bytes_down": 70 * 3 + 9 * 10 + 7 * 5, "server_bytes_up": 40 * 2 + 4 * 4, "seconds": 1.5}
    second = {"server_exchanges": 3, "server_contacts": 1, "server_arrivals": 1}
    assert ledger.links() == [first, second | {"server_bytes_down": 60, "server_bytes_up": 30, "seconds": 0.0}]
    assert ledger.peaks() == {"bytes_down": 80, "bytes_up": 48}
    assert Ledger(sites[:1], (counted(),)).peaks() == {"bytes_down": 0, "bytes_up": 0}


def test_sizes_follow_contacts_down_and_arrivals_up():
    site = Site("0", "echo", "random", vectors_down=2, vectors_up=1, bytes_down=80, bytes_up=48)
    totals = Ledger((site,), (counted(contacts=10, arrivals=7),)).totals()
    assert (totals["vectors_down"], totals["vectors_up"], totals["bytes_down"], totals["bytes_up"]) == (20, 7, 800, 336)


def test_totals_are_sums_over_the_sites():
    """Each site counts something else, k + 1 of event number k at the first and ten times that at the second."""
    sites = (Site("0", "draw", "random"), Site("1", "train", "random", 2, 3, 5, 7))
    ledger = Ledger(sites, tuple(tuple(factor * (k + 1) for k in range(len(COUNTERS))) for factor in (1, 10)))
    totals = ledger.totals()
    assert list(totals) == list(EVENTS)
    assert all(totals[name] == 11 * (k + 1) for k, name in enumerate(COUNTERS))
    assert totals["iterations"] == totals["exchanges"] - totals["rejected"]
    contacts, arrivals = (10 * (COUNTERS.index(name) + 1) for name in ("contacts", "arrivals"))
    sizes = ("vectors_down", "vectors_up", "bytes_down", "bytes_up")
    assert [totals[name] for name in sizes] == [2 * contacts, 3 * arrivals, 5 * contacts, 7 * arrivals]
    rows = ledger.rows()
    assert [rows[0][name] for name in sizes] == [0] * 4 and [rows[1][name] for name in sizes] == [2, 3, 5, 7]
    assert (rows[1]["path"], rows[1]["method"], rows[1]["drawn"]) == ("1", "train", 10 * (COUNTERS.index("drawn") + 1))


def test_a_ledger_cannot_be_changed():
    site = Site("0", "draw", "random")
    for made, name in ((site, "path"), (Ledger((site,), ()), "sites")):
        with pytest.raises(FrozenInstanceError):
            setattr(made, name, ())


def test_events_are_counted_at_their_own_site_and_row():
    """Two rows of a trace; an event that is not named counts nothing."""
    counts = no_counts(3)
    assert counts.shape == (3, len(COUNTERS), 2) and not np.any(counts)
    once = add_events(counts, 2, {"draws_random": jnp.int32(1), "queries_total": jnp.uint32(2**31)})
    rows = np.stack([once, add_events(add_events(once, 2, {"queries_total": jnp.uint32(2**31)}), 0, {"lost": jnp.int32(3)})])
    ledger = to_ledger((Site("0", "draw", "random"),) * 3, rows)
    by_site = [{name: row[name].tolist() for name in COUNTERS if np.any(row[name])} for row in ledger.rows()]
    assert by_site == [{"lost": [0, 3]}, {}, {"draws_random": [1, 1], "queries_total": [2**31, 2**32]}]


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
        exchanges=[0, 4, 8], server_exchanges=[0, 1, 2], draws_arbitrary=[0, 3, 6], draws_random=[0, 1, 2],
        draws_delegate=[0, 2, 4], reasks=[0, 3, 6], bytes_down=[0, 100, 200], bytes_up=[0, 50, 100], queries_slowest=[0, 7, 14],
    )  # fmt: skip
    assert t.Exchanges().cost(trace).tolist() == [0, 4, 8]
    np.testing.assert_allclose(t.Hierarchical(c1=0.1, c2=2.0).cost(trace), [0, 2.4, 4.8])
    assert t.Selection(arbitrary=5.0, random=2.0).cost(trace).tolist() == [0, 34, 68]
    assert t.Bytes().cost(trace).tolist() == [0, 150, 300]
    np.testing.assert_allclose(t.Seconds(latency=1.0, bandwidth=50.0, query=0.5).cost(trace), [0, 10.5, 21])
    assert cost_to_target(t.Exchanges(), trace, 1) == 4
    assert cost_to_target(t.Exchanges(), trace, None) is None


@pytest.mark.parametrize(
    ("price", "label", "unit"),
    [
        (t.Exchanges(), "exchanges", "exchanges"),
        (t.Hierarchical(0.25, 3.0), "hierarchical(c1=0.25, c2=3)", "c1 per exchange + c2 per cohort"),
        (t.Selection(5.0, 2.0), "selection(arbitrary=5, random=2)", "delegate selections"),
        (t.Bytes(), "bytes", "bytes"),
        (t.Seconds(1.0, 50.0, 0.5), "seconds(latency=1, bandwidth=50, query=0.5)", "seconds"),
    ],
)
def test_a_price_is_shown_with_its_constants(price, label, unit):
    """They are given by position; the kind is not."""
    assert (price.label, price.unit) == (label, unit)
    assert price.kind == label.split("(")[0]


def test_prices_without_constants_take_those_of_the_papers():
    """A hub's exchange costs a tenth of a new cohort; all selections cost one; computing costs nothing."""
    assert t.Hierarchical() == t.Hierarchical(c1=0.1, c2=1.0)
    assert t.Selection() == t.Selection(arbitrary=1.0, random=1.0)
    assert t.Seconds() == t.Seconds(latency=0.05, bandwidth=1e7, query=0.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: t.Hierarchical(c1=-1.0), "at least 0"),
        (lambda: t.Selection(arbitrary=1.0, random=2.0), "random <= arbitrary"),
        (lambda: t.Selection(arbitrary=0.5), "at least 1"),
        (lambda: t.Selection(arbitrary=2.0, random=0.5), "at least 1"),
        (lambda: t.Seconds(bandwidth=0.0), "greater than 0"),
        (lambda: t.Seconds(latency=-1.0), "at least 0"),
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
    assert t.Target("test_accuracy", 0.1).first_hit({"test_accuracy": [0.5, 0.95, 0.99]}) == 1
    assert t.Target("gap", 1.0).met(np.array([[0.5, 1.0], [1.5, -2.0]])).tolist() == [[True, False], [False, True]]


def test_a_target_is_on_a_known_metric_one_of_one_s_own_or_one_of_a_module():
    class Spread:
        name = "spread"

    assert str(t.Target(Spread(), 0.1).metric) == "spread"
    assert t.Target("mine:spread", 0.1).metric == "mine:spread" and t.Target("gap", 0.1).metric == "gap"
    for metric in ("spred", 3):
        with pytest.raises(t.UserError, match="name one of these"):
            t.Target(metric, 0.1)


def test_a_run_goes_on_beyond_its_target_unless_told_to_stop():
    assert not t.Target("gap", 0.1).stop and t.Target("gap", 0.1, stop=True).stop
    assert jax.tree.leaves(t.Target("gap", 0.1, stop=True)) == [0.1]


@given(
    st.dictionaries(
        st.sampled_from([f.name for f in fields(t.LinearPrice) if f.name != "kind"]), st.floats(0.01, 100), min_size=1
    )
)
def test_a_linear_price_adds_up_what_each_event_costs(prices):
    counts = {name: np.arange(3) * (k + 1) for k, name in enumerate(EVENTS)}
    expected = sum(a * counts[name] for name, a in prices.items())
    price = t.LinearPrice(**prices)
    np.testing.assert_allclose(price.cost(counts), expected)
    assert all(name.replace("_", " ") in price.label for name in prices)


def test_a_linear_price_of_nothing_is_refused():
    with pytest.raises(t.UserError, match="needs an event that costs something"):
        t.LinearPrice()
