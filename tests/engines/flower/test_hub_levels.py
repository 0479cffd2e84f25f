"""Hubs of hubs, without their network: each hop sends on, adds up or plays as one between server and clients does."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

import turnout as t
from tests.engines.flower.test_hub_play import ALGORITHMS as IN_HUBS
from tests.engines.flower.test_hub_play import KEEPS, ORDER, REPEAT
from tests.engines.flower.test_hub_serving import NICE, sppm
from tests.engines.flower.test_hubs import (
    ALGORITHMS,
    CLIENTS,
    DIMENSION,
    FEDAVG,
    FULL,
    SKIP,
    compiled,
    configured,
    passed,
    untimed,
)
from tests.helpers.in_process import InProcess
from tests.helpers.in_process_hubs import InProcessHubs
from turnout.engines.flower.greeting import gathered
from turnout.engines.flower.hub_play import packed_orders, read_orders
from turnout.engines.request import Refused
from turnout.io.serialization import decode, encode

LEVELS = "count = [2, 3]"


def links(place) -> list[list]:
    """Messages, and bytes down and up, that passed the link above each level of hubs, the lowest level first."""
    below = [each for each in place.nodes_of if isinstance(each, InProcessHubs)]
    own = [[place.payloads[name] for name in ("messages", "down", "up")]]
    return [np.sum(each, 0).tolist() for each in zip(*map(links, below), strict=True)] + own if below else own


def counted(trace) -> list[list]:
    """What the ledger has of these."""
    return [[link[f"server_{name}"] for name in ("contacts", "bytes_down", "bytes_up")] for link in trace.ledger.links()]


CASES = {name: ALGORITHMS[name] for name in ("fedavg", "scaffold", "feddcd", "scaffnew")}
"""Sums; of states too; replies that are sent on; messages with parts of each client."""

WORK = ("fedavg", "scaffold", "remembered", "ef21 above", "momentum", "clipped", "losses", "repeats")
CASES |= {f"{name} in hubs": IN_HUBS[name] for name in WORK}
"""Rounds of the lowest hubs: means of what they found, or each reply."""


@pytest.mark.tiers(quick=[], slow=["fedavg", "scaffnew", "scaffold in hubs", "ef21 above in hubs"])
@pytest.mark.parametrize("name", CASES)
def test_hubs_of_hubs_play_the_compiled_run(name):
    """Numbers to 1e-10, all counts, and what passes each link."""
    experiment = configured(CASES[name], LEVELS)
    expected, place = compiled(experiment), InProcessHubs(experiment)
    trace = place.session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert untimed(trace) == untimed(expected) and passed(trace) == passed(expected)
    assert links(place) == counted(expected)


@pytest.mark.slow
def test_requests_to_play_pass_three_levels():
    """Hubs have states, and the means of two levels are that of all hubs."""
    experiment = configured(KEEPS, "count = [2, 2, 2]", clients=16)
    expected, place = compiled(experiment), InProcessHubs(experiment)
    trace = place.session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert untimed(trace) == untimed(expected) and links(place) == counted(expected)


def played_by(experiment, missing: int, levels: bool):
    """The run in which one of the lowest hubs never plays."""
    place = InProcessHubs(experiment, None if levels else {missing: no_play})
    if levels:
        place.nodes_of[missing // 3].misdeeds = {missing % 3: no_play}
    return place.session().run().trace


def no_play(kind, reply):
    return None if kind == "play" else reply


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedavg", "ef21 above"])
def test_a_hub_that_does_not_play_is_left_out_by_the_hub_above_it(name):
    """The mean is over the clients of the others, as on one level."""
    trace = played_by(configured(IN_HUBS[name] + SKIP, LEVELS, rounds=2), 4, levels=True)
    expected = played_by(configured(IN_HUBS[name] + SKIP, "count = 6", rounds=2), 4, levels=False)
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert [link["server_arrivals"] for link in trace.ledger.links()][0] == 2 * 5 == expected.ledger.links()[0]["server_arrivals"]


@pytest.mark.slow
def test_hubs_of_hubs_at_work_are_waited_for():
    """Longer than a deadline; none plays twice."""
    experiment = configured(KEEPS + REPEAT, LEVELS, rounds=2)
    place = InProcessHubs(experiment)
    place.deadline = 1e-6
    trace, expected = place.session().run().trace, compiled(experiment)
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert untimed(trace) == untimed(expected) and place.payloads["messages"] > 2 * 2


@pytest.mark.slow
def test_a_run_that_needs_all_hubs_names_the_one_that_is_missing():
    place = InProcessHubs(configured(IN_HUBS["fedavg"], LEVELS))
    place.nodes_of[1].misdeeds = {2: no_play}
    with pytest.raises(t.UserError, match=r"hub 1\.2 has not played in round 1 \(.*\): look into its log"):
        place.session().run()


def told(change, kind, reply):
    if kind != "play":
        return reply
    tree, said = decode(reply, np.zeros(DIMENSION))
    other, fields = change(tree, said["played"], said)
    return encode(other, np.zeros(DIMENSION), fields)


def with_played(said: dict, played: dict) -> dict:
    return said | {"played": played}


FALSE = {
    "NaN": (lambda tree, played, said: (tree * np.nan, said), "not finite"),
    "longer": (lambda tree, played, said: (np.zeros(DIMENSION + 1), said), "of another shape or type"),
    "nothing": (lambda tree, played, said: (None, said), "of another shape or type"),
    "others": (lambda tree, played, said: (tree, with_played(said, {"0": played["3"]})), "for hubs that are not below it"),
    "no hubs": (lambda tree, played, said: (tree, said | {"played": 3}), "malformed"),
    "reasons": (lambda tree, played, said: (tree, said | {"why": {"3": 4}}), "malformed"),
    "counts": (lambda tree, played, said: (tree, with_played(said, {"3": played["3"] | {"counts": 1}})), "without its counts"),
    "busy": (lambda tree, played, said: (None, {"busy": -1}), "without the number of its exchanges"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FALSE)
def test_what_a_hub_may_not_say_of_those_below_it_is_counted_and_never_used(name):
    """The run is that of the other one."""
    change, reason = FALSE[name]
    experiment = configured(IN_HUBS["fedavg"] + SKIP, LEVELS, rounds=2)
    place = InProcessHubs(experiment, {1: partial(told, change)})
    trace, expected = place.session().run().trace, InProcessHubs(experiment, {1: no_play}).session().run().trace
    np.testing.assert_array_equal(trace.x, expected.x)
    assert untimed(trace) == untimed(expected)
    assert any(reason in why and count == 2 for why, count in place.counts.items())


ORDERS = {3: ORDER, 4: ORDER._replace(own=[(0, 2), (1, 3)])}
SIZES = {3: 2, 4: 2, 5: 2}
BAD_ORDERS = {
    "no JSON": b"{",
    "nobody": packed_orders(ORDERS).replace(b'"own":{"3"', b'"owns":{"3"'),
    "of other hubs": packed_orders({6: ORDER}),
    "of more clients": packed_orders({3: ORDER._replace(base=[(1, 0)] * 3)}),
    "long": b" " * 60_000,
}


def test_orders_to_hubs_below_are_read_as_they_were_written():
    assert read_orders(packed_orders(ORDERS), SIZES, ("1.loop",)) == ORDERS


@pytest.mark.parametrize("name", BAD_ORDERS)
def test_a_hub_refuses_what_are_no_orders_to_those_below_it(name):
    with pytest.raises(Refused, match="the request to this hub is not valid"):
        read_orders(BAD_ORDERS[name], SIZES, ("1.loop",))


PAIRS = sppm('kind = "bfgs", convexity = 0.0', NICE)
"""Two clients of one hub, of two hubs below one, or of two hubs of the server."""


@pytest.mark.slow
def test_the_lowest_hub_that_has_the_whole_cohort_serves_it():
    """A hub has the round played by one of its own, plays it through these, or sends the server's requests on to them."""
    experiment = configured(PAIRS, "count = [2, 2]", "seed = 4", rounds=3, clients=8)
    expected, place = compiled(experiment), InProcessHubs(experiment)
    trace = place.session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert untimed(trace) == untimed(expected) and passed(trace) == passed(expected)
    assert links(place) == counted(expected)
    rows = expected.ledger.rows()
    served = [sum(row["exchanges"] for row in rows if row["path"].endswith(f".served{level}")) for level in (1, 2)]
    assert served == [1, 2]


def silent(kind, number, reply):
    """A client that does not answer in the first two rounds."""
    return None if kind == "ask" and number <= 2 else reply


@pytest.mark.slow
def test_a_hub_of_a_hub_that_is_away_takes_its_clients_along_and_brings_them_back():
    """The run is that without hubs in which these clients do not answer, with the weights of the others."""
    experiment = configured(FULL + FEDAVG + SKIP, LEVELS)
    place, flat = InProcessHubs(experiment), InProcess(replace(experiment, hubs=None), dict.fromkeys((8, 9), silent))
    session = place.session()
    session.step(1)
    place.nodes_of[1].away = {101}
    session.step(2)
    place.nodes_of[1].away = set()
    session.run()
    expected = flat.session().run().trace
    np.testing.assert_allclose(session.trace.x, expected.x, rtol=1e-10)
    assert session.trace.ledger.totals()["arrivals"] == expected.ledger.totals()["arrivals"] == 4 * CLIENTS - 4


def another(name: str, kind: str, reply: bytes) -> bytes:
    """The greeting of a hub that is another than it should be."""
    fields = json.loads(reply)
    return json.dumps(fields | {"clients": {"0": 1}} if name == "place" else fields | {"version": "0.0"}).encode()


WRONG = {
    "place": "hub 1: hub 0: it says that it has client 0: this is a client of another hub: start turnout hub with the place",
    "version": "hub 1: client 0 does not agree on version: give the server and all nodes the same version of turnout",
}


@pytest.mark.tiers(quick=[], longer=["*"])
@pytest.mark.parametrize("name", WRONG)
def test_the_server_is_told_what_is_wrong_below_a_hub(name):
    place = InProcessHubs(configured(FULL + FEDAVG, LEVELS))
    place.nodes_of[1].misdeeds = {0: partial(another, name)}
    with pytest.raises(t.UserError, match=f"2 clients did not answer within 0 s, the first is client 6; refused: {WRONG[name]}"):
        gathered(place.clients(), 0.0)


@pytest.mark.slow
def test_encrypted_sums_pass_all_levels():
    """Each hub adds ciphertexts, and the server unseals the decrypted sum."""
    pytest.importorskip("tenseal", reason="TenSEAL is not installed: pip install 'turnout[encrypted]'")
    experiment = configured(FULL + FEDAVG, LEVELS, 'engine = "nodes"\naggregation = "encrypted"', rounds=2)
    place = InProcessHubs(experiment)
    found = place.session().run().trace
    expected = compiled(replace(experiment, run=replace(experiment.run, aggregation="sum")))
    np.testing.assert_allclose(found.x, expected.x, atol=1e-10, rtol=0)
    assert {"sum", "decrypt"} <= {*place.headers} and {"sum", "decrypt"} <= {*place.nodes_of[0].headers}
