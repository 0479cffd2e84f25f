"""The clock of a run by the speeds of its clients' devices, held to counts by hand and to each other engine."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from tests.helpers.federations import ENGINES, counted, four, play
from tests.helpers.gradients import client_gradient
from turnout.accounting.ledger import Site
from turnout.devices import Fleet
from turnout.engines.exchange.timing import decryption_time

SPEEDS = {
    "seconds_per_query": np.array([0.1, 0.25, 2.0]),
    "latency": np.array([0.5, 0.05, 0.0]),
    "bandwidth_up": np.array([10.0, 40.0, 1000.0]),
    "bandwidth_down": np.array([100.0, 20.0, 1000.0]),
}
MESSAGE, REPLY = 24, 24
"""Bytes of three numbers."""


def three() -> t.Problem:
    return t.Quadratic.random(3, 3, seed=1)


def seconds_of(queries: int) -> np.ndarray:
    """Seconds of each client by the formula."""
    speeds = SPEEDS
    down, up = MESSAGE / speeds["bandwidth_down"], REPLY / speeds["bandwidth_up"]
    return speeds["latency"] + down + queries * speeds["seconds_per_query"] + up


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_an_exchange_takes_as_long_as_its_slowest_client(engine):
    session = play(t.FedAvg(t.Full(), lr=0.01, steps=4), three(), 5, engine=engine, devices=t.Devices(**SPEEDS))
    np.testing.assert_allclose(session.trace.frame["seconds"], np.arange(6) * seconds_of(4).max(), rtol=1e-12)


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_the_clock_depends_on_who_is_drawn(engine):
    """Cohorts of one client: the seconds of a round tell who was drawn, which the states of the clients confirm."""
    algorithm = t.FedVarp(t.Nice(1), lr=0.01, steps=2, memory="clients")
    session = play(algorithm, three(), 6, engine=engine, devices=t.Devices(**SPEEDS))
    rounds = np.diff(session.trace.frame["seconds"])
    drawn = np.argmin(np.abs(rounds[:, None] - seconds_of(2)), axis=1)
    np.testing.assert_allclose(rounds, seconds_of(2)[drawn], rtol=1e-6)
    states = np.asarray(session.progress.clients)
    assert {*np.flatnonzero(np.any(states != 0, axis=1))} == {*drawn.tolist()}


@pytest.mark.tiers(quick=[], longer=["first-double"], slow=["all-double"])
@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("options", [{}, {"first": 2}, {"deadline": 4.0}], ids=["all", "first", "deadline"])
def test_nodes_and_sweeps_have_the_clock_of_the_compiled_run(options, precision):
    speed = t.devices.LogNormal(0.3, sigma=1.0)
    devices = t.Devices(speed, latency=speed, bandwidth_up=t.devices.Classes([50.0, 500.0], [0.5, 0.5]), **options)
    settings = {"devices": devices, "faults": t.Faults(0.2, "skip"), "precision": precision, "rounds": 5}
    algorithm = t.Scaffold(t.Nice(3), lr=0.05, steps=2)
    one, other = (t.run(algorithm, four(), seed=3, engine=engine, **settings) for engine in ("compiled", "nodes"))
    swept = t.sweep(algorithm, four(), {"lr": [0.01, 0.05]}, seeds=[3], **settings).traces[1]
    assert one.ledger == other.ledger == swept.ledger
    assert one.ledger.totals()["seconds"] > 0
    for trace in (other, swept):
        np.testing.assert_allclose(trace.x, one.x, rtol=1e-4 if precision == "single" else 1e-12)


@jax.jit
def exchange(fleet: Fleet, *arguments):
    return fleet.exchange(*arguments, (0, 0))


def waited(times: np.ndarray, arrived: np.ndarray, deadline: float, first: int) -> tuple[set, float]:
    """Whom a server uses and how long it waits, by going through the replies in the order of their times."""
    used, end = [], 0.0
    for place in sorted(range(len(times)), key=lambda place: times[place]):
        if arrived[place] and times[place] <= deadline:
            used.append(place)
            if len(used) == first:
                return {*used}, times[place]
        silent = not arrived[place] and np.isfinite(deadline)
        end = max(end, deadline if silent else min(times[place], deadline))
    return {*used}, end


@pytest.mark.longer
@given(
    st.lists(st.integers(0, 5), min_size=6, max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
    st.sampled_from([None, 0.5, 2.0, 9.0]),
    st.one_of(st.none(), st.integers(1, 6)),
)
def test_deadline_and_first_are_those_of_a_server_that_waits(queries, active, arrived, deadline, first):
    fleet, active, queries = t.Devices(1.0, deadline=deadline, first=first).bind(6), np.array(active), np.array(queries)
    arrived = active & np.array(arrived)
    clock = exchange(fleet, np.arange(6), active, arrived, queries, np.zeros(6, int))
    used, end = waited(queries[active], arrived[active], np.inf if deadline is None else deadline, first or 7)
    assert {*np.flatnonzero(np.asarray(clock.on_time)[active])} == used and not np.any(np.asarray(clock.on_time)[~active])
    assert int(clock.microseconds[0]) == round(1e6 * end)


@pytest.mark.longer
def test_every_try_takes_its_time():
    """A geometric number of tries with three clients at 0.1 s: rounds take the most tries of the three."""
    devices, faults = t.Devices(0.1), t.Faults(0.5, "repeat")
    session = play(t.MbGd(t.Full(), lr=0.05), three(), 30, devices=devices, faults=faults)
    frame = session.trace.frame
    most = np.diff(frame["exchanges"])
    assert most.max() > 2
    np.testing.assert_allclose(np.diff(frame["seconds"]), 0.1 * most, rtol=1e-9)


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_a_reply_that_is_late_changes_no_state_and_no_average(engine):
    """Client 2 is always late, so FedVarp keeps no state of it, and a round of MbGd is a step of the two others."""
    devices, faults = t.Devices([0.1, 0.2, 3.0], deadline=1.0), t.Faults(missing="skip")
    algorithm = t.FedVarp(t.Full(), lr=0.01, steps=1, memory="clients")
    states = play(algorithm, three(), 2, engine=engine, devices=devices, faults=faults).progress.clients
    assert np.any(states[0]) and np.any(states[1]) and not np.any(states[2])
    session = play(t.MbGd(t.Full(), lr=0.1), three(), 1, engine=engine, devices=devices, faults=faults)
    expected = -0.1 * sum(client_gradient(three(), i, np.zeros(3)) for i in (0, 1)) / 3
    np.testing.assert_allclose(session.trace.x, expected, rtol=1e-12)
    totals = session.trace.ledger.totals()
    assert (totals["contacts"], totals["arrivals"], totals["seconds"]) == (3, 2, 1.0)


@pytest.mark.slow
def test_a_sum_leaves_out_what_is_late_too():
    devices, faults = t.Devices([0.1, 0.2, 3.0, 0.3], first=2), t.Faults(0.3, "skip")
    algorithm = t.MbGd(t.Nice(3), lr=0.05)
    plain, summed = (
        play(algorithm, four(), 6, engine="nodes", devices=devices, faults=faults, aggregation=how) for how in ("plain", "sum")
    )
    np.testing.assert_allclose(summed.trace.x, plain.trace.x, rtol=1e-12)
    assert counted(summed) == counted(plain)


@pytest.mark.longer
def test_the_expected_average_is_over_those_on_time():
    """By enumeration of the cohorts: E sum_{i on time} lambda_i / p_i r_i = sum_i lambda_i P(i on time | i drawn) r_i."""
    seconds, values = np.array([0.3, 0.1, 0.4, 0.2]), np.array([1.0, -2.0, 5.0, 7.0])
    fleet = t.Devices(seconds, first=2).bind(4)
    cohorts = [np.array(ids) for ids in itertools.combinations(range(4), 3)]
    ones, zeros = jnp.ones(3, bool), jnp.zeros(3, int)
    exchanges = [fleet.exchange(jnp.asarray(ids), ones, ones, ones.astype(int), zeros, (0, 0)) for ids in cohorts]
    on_time = [ids[np.asarray(exchange.on_time)] for ids, exchange in zip(cohorts, exchanges, strict=True)]
    average = np.mean([values[ids].sum() / 4 / (3 / 4) for ids in on_time])
    chance = np.array([np.mean([i in late for late in on_time]) for i in range(4)]) / (3 / 4)
    np.testing.assert_allclose(average, (chance * values).sum() / 4)
    assert chance[2] < chance[0] < chance[1] == 1


@pytest.mark.longer
def test_a_sum_is_decrypted_by_the_member_whose_turn_it_is():
    fleet, population = t.Devices([1.0, 1.0, 1.0, 1.0], latency=[1.0, 2.0, 3.0, 4.0]).bind(4), t.Population(4)
    cohort = t.Cohort.of([3, 1, 0], 0.75, population, selection="random")
    site = Site("0", "decrypt", "random", bytes_down=100, bytes_up=10)
    answered = jnp.array([True, False, True])
    taken = [int(decryption_time(fleet, cohort, answered, jnp.int32(turn), site)[0]) for turn in range(4)]
    assert taken == [4_000_000, 1_000_000] * 2
    assert int(decryption_time(fleet, cohort, jnp.zeros(3, bool), jnp.int32(1), site)[0]) == 0


@pytest.mark.slow
@given(st.integers(0, 2**40), st.integers(0, 2**31 - 1), st.integers(0, 10**7))
def test_long_times_do_not_overflow(size, queries, repeats):
    fleet = t.Devices(0.5, latency=1.0, bandwidth_up=1.0).bind(1)
    one = jnp.ones(1, bool)
    with jax.disable_jit(), jax.enable_x64(True):
        ids, counts = jnp.zeros(1, int), (jnp.array([queries]), jnp.array([repeats]))
        low, high = fleet.exchange(ids, one, one, *counts, (0, size)).microseconds
    exact = (1 + repeats) * (10**6 + 500_000 * queries + 10**6 * size)
    counted = int(low) + (int(high) << 32)
    assert counted == exact if exact < 2**50 else 2**49 < counted < 2**53


@pytest.mark.longer
def test_without_devices_there_is_no_clock():
    assert play(t.MbGd(t.Nice(2), lr=0.05), three(), 3).trace.frame["seconds"].to_list() == [0.0] * 4


@pytest.mark.longer
def test_single_precision_counts_whole_microseconds():
    """7200 seconds in microseconds have 33 bits."""
    run = play(t.MbGd(t.Full(), lr=0.05), three(), 2, devices=t.Devices(latency=7200.0), precision="single")
    assert run.trace.ledger.totals()["microseconds"] == 2 * 7200 * 10**6
    assert isinstance(t.Devices(latency=1.0).bind(2), Fleet)


BAD = {
    "deadline": (t.Devices(latency=[1.0, 2.0, 3.0], deadline=0.5), "skip", "deadline = 0.5 s is too short"),
    "first": (t.Devices(0.1, first=3), "skip", "first = 3 waits for more replies than the 2"),
    "first and raise": (t.Devices(0.1, first=1), "raise", "set \\[faults\\] missing = 'skip'"),
    "deadline and repeat": (t.Devices(0.1, deadline=1.0), "repeat", "as late the next time"),
    "other clients": (t.Devices([0.1, 0.2]), "skip", "shape \\[2\\], but there are 3 clients"),
    "zero bandwidth": (
        t.Devices(bandwidth_up=t.devices.Classes([0.0], [1.0])),
        "skip",
        "bandwidth_up must be above 0 and finite, but is 0",
    ),
    "infinite": (t.Devices(latency=np.array([1.0, np.inf, 1.0])), "skip", "latency must be at least 0 and finite, but is inf"),
}


@pytest.mark.parametrize("name", BAD)
def test_devices_that_do_not_fit_are_one_sentence(name):
    devices, missing, words = BAD[name]
    with pytest.raises(t.UserError, match=words):
        play(t.MbGd(t.Nice(2), lr=0.05), three(), 2, devices=devices, faults=t.Faults(missing=missing))


@pytest.mark.longer
def test_late_replies_stop_a_run_that_needs_all():
    with pytest.raises(t.UserError, match="later than \\[devices\\] deadline"):
        play(t.MbGd(t.Full(), lr=0.05), three(), 2, devices=t.Devices([0.1, 0.2, 3.0], deadline=1.0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"latency": -1.0}, "Devices.latency must be at least 0"),
        ({"bandwidth_up": 0.0}, "Devices.bandwidth_up must be greater than 0"),
        ({"trace": "x.csv", "latency": 1.0}, "leave latency out"),
        ({"first": 0}, "Devices.first must be at least 1"),
    ],
)
def test_fields_are_checked(options, words):
    with pytest.raises(t.UserError, match=words):
        t.Devices(**options)
