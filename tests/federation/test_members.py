"""Members of a federation of real processes: a quorum, a site with a key of its own, revocation."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from tests.helpers.commands import turnout, wait_for
from turnout.accounting.counters import to_ledger
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.registry import REVOKED
from turnout.engines.flower.server_connection import flower_run
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.federation.local import Federation
from turnout.federation.server import connect_clients

TOML = """
[problem]
kind = "log-sum"
clients = 4
dimension = 3
parts = 1
[sampler]
kind = "full"
[run]
rounds = 8
metrics = ["value"]
[faults]
missing = "skip"
[federation]
start = 0.75
[algorithm]
kind = "scaffold"
steps = 2
lr = 0.001
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A SuperLink and three nodes, and a fourth site, which has made its own key and is registered."""
    folder = tmp_path_factory.mktemp("federation")
    (folder / "file.toml").write_text(TOML)
    federation = Federation(folder / "federation", folder / "file.toml", 3, None)
    try:
        federation.start_registered_superlink()
        for client in range(3):
            federation.start_node(client)
        yield federation
    finally:
        federation.stop()


def start_site(place) -> None:
    """Start the node of the fourth site."""
    where = ("--superlink", place.server.address, "--authority", place.server.authority)
    own = ("--key", place.folder.parent / "north.key", "--states", place.folder / "states-north")
    place.run("north", "turnout", "node", place.file, "--client", 3, *where, *own)


@pytest.mark.slow
def test_a_run_of_three_clients_that_becomes_one_of_four_and_loses_one(place, monkeypatch):
    """The fourth is registered while the SuperLink runs, starts in round 2 and is asked; client 1 is revoked in round 5."""
    monkeypatch.setattr("turnout.runs.session.CHUNK_SECONDS", 0.0)
    request = place.folder.parent / "north.csr"
    assert turnout("node", "--request", request)[0] == 0
    assert turnout("register", place.folder, request) == (
        0,
        "registered as client 3; the site starts its node with --client 3 and its own key\n",
        "",
    )
    experiment = read(place.file)
    with flower_run(place.server) as grid:
        mailbox, nodes = connect_clients(grid, experiment, None, 60.0, keys=place.folder)
        assert [info.node is None for info in nodes.values()] == [False, False, False, True]
        session = session_of(experiment, build(experiment, None), engine=partial(Flower, mailbox, nodes, False))
        for _ in session.play():
            if session.round == 2:
                start_site(place)
                wait_for(lambda: len([*grid.get_node_ids()]) == 4)
            if session.round == 5:
                assert turnout("revoke", place.folder, "1")[0] == 0
                assert wait_for(lambda: place.children["node-1"].poll()) == 2
    arrivals = to_ledger(session.trace.sites, session.trace.columns["counts"]).totals()["arrivals"]
    assert np.diff(arrivals).tolist() == [3, 3, 4, 4, 4, 3, 3, 3]
    sentence = f"turnout: the SuperLink at {place.server.address} refuses this node: {REVOKED}\n"
    assert sentence in (place.folder / "node-1.log").read_text()
    assert "Traceback" not in (place.folder / "node-1.log").read_text()
    assert REVOKED in (place.folder / "superlink.log").read_text()


@pytest.mark.slow
def test_a_revoked_node_is_refused_after_a_restart_of_everything(place):
    place.stop(["superlink", "node-1"])
    (place.folder / "node-1.log").unlink()
    place.start_superlink()
    place.start_node(1)
    assert wait_for(lambda: place.children["node-1"].poll()) == 2
    assert REVOKED in (place.folder / "node-1.log").read_text()
    with flower_run(place.server) as grid:
        wait_for(lambda: len([*grid.get_node_ids()]) == 3)
