"""The test vectors: two references agree on them, and turnout's engines play them."""

import json

import numpy as np
import pytest

from tests.references.__main__ import FILES, differing
from tests.references.second import PROGRAMS, states
from tests.vectors.turnout_runs import RUNS, play

pytestmark = pytest.mark.filterwarnings("ignore:a client takes part")

VECTORS = {path.stem: json.loads(path.read_text()) for path in sorted(FILES.glob("*.json"))}


def arrays(states):
    """The arrays of a state, or of those of all clients [n, ...], in the order of the file."""
    if isinstance(states, dict):
        return [array for value in states.values() for array in (arrays(value) if isinstance(value, dict) else [np.array(value)])]
    return [np.array(parts) for parts in zip(*map(arrays, states), strict=True)]


def assert_equal(found, wanted, where):
    assert len(found) == len(wanted), f"{where}: {len(found)} parts, not {len(wanted)}"
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-10, err_msg=where)


def test_files_are_what_the_references_say():
    assert differing() == [], "run python -m tests.references"


def hold(name: str, engine: str) -> None:
    """Hold one of turnout's engines against a vector."""
    vector = VECTORS[name]
    played = play(vector, engine)
    for number, (server, clients) in enumerate(played["states"]):
        wanted = vector["rounds"][number - 1] if number else vector["start"]
        assert_equal(server, arrays(wanted["server"]), f"{name}, round {number}, server")
        if "clients" in wanted:
            assert_equal(clients, arrays(wanted["clients"]), f"{name}, round {number}, clients")
    if engine == "nodes" and RUNS[name].messages:
        assert_messages(vector, played["sent"])


def assert_messages(vector: dict, sent: list) -> None:
    """Compare what the nodes were asked and answered, which come in a random order."""
    wanted = {}
    for number, round in enumerate(vector["rounds"], start=1):
        for exchange, one in enumerate(round["exchanges"]):
            messages = one.get("messages") or [one["message"]] * len(one["to"])
            # What is sent before the first round is not noted.
            if one.get("sent") != [0]:
                parts = zip(one["to"], messages, one["replies"], strict=True)
                wanted |= {(number, exchange, client): pair for client, *pair in parts}
    assert len(sent) == len(wanted)
    for *which, message, reply in sent:
        for found, parts in zip((message, reply), wanted[tuple(which)], strict=True):
            assert_equal(found, arrays(parts), f"{vector['name']}, round, exchange and client {which}")


@pytest.mark.tiers(
    quick=["scaffold-1"],
    longer=["fedprox", "scaffold-2-rows", "fednova", "fedadam", "fedavgm"],
    slow=["feddyn", "scaffnew", "fedbuff-staleness", "bl2", "fedrep", "in-hubs", "diana", "tamuna", "gradskip", "ringleader"],
)
@pytest.mark.parametrize("name", RUNS)
def test_the_compiled_engine_plays_it(name):
    hold(name, "compiled")


@pytest.mark.tiers(
    quick=[],
    longer=["fedper"],
    slow=["fedavg", "fednova-momentum", "scaffnew", "shed", "clag", "fedmuon", "accfeddcd", "marina-pp", "icgm-rg-saga"],
)
@pytest.mark.parametrize("name", RUNS)
def test_nodes_play_it(name):
    hold(name, "nodes")


@pytest.mark.parametrize("name", [name for name, vector in VECTORS.items() if vector["algorithm"] in PROGRAMS])
def test_a_second_reference_agrees(name):
    """With 50 digits, so that the files are right to the last of theirs but two."""
    vector = VECTORS[name]
    for (server, clients), wanted in zip(states(vector), vector["rounds"], strict=True):
        for part, value in server.items():
            np.testing.assert_allclose(wanted["server"][part], value, rtol=0, atol=1e-13)
        assert (clients is None) == ("clients" not in wanted)
        for found, own in zip(clients or [], wanted.get("clients", []), strict=True):
            for part, value in found.items():
                np.testing.assert_allclose(own[part], value, rtol=0, atol=1e-13)
