"""Hubs of hubs, without their network: each hop sends on, adds up or plays as one between server and clients does."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

import turnout as t
from tests.engines.flower.test_hub_serving import NICE, sppm
from tests.engines.flower.test_hubs import ALGORITHMS, CLIENTS, FEDAVG, FULL, SKIP, compiled, configured, passed, untimed
from tests.helpers.in_process import InProcess
from tests.helpers.in_process_hubs import InProcessHubs
from turnout.engines.flower.greeting import gathered

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


@pytest.mark.tiers(quick=[], slow=["fedavg", "scaffnew"])
@pytest.mark.parametrize("name", CASES)
def test_hubs_of_hubs_play_the_compiled_run(name):
    """Numbers to 1e-10, all counts, and what passes each link."""
    experiment = configured(CASES[name], LEVELS)
    expected, place = compiled(experiment), InProcessHubs(experiment)
    trace = place.session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert untimed(trace) == untimed(expected) and passed(trace) == passed(expected)
    assert links(place) == counted(expected)


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
