"""Federations of real processes with hubs: the compiled run, also where a hub is killed."""

import json
from functools import partial

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from tests.helpers.commands import whole
from turnout.accounting.ledger import SERVER
from turnout.engines.flower.hub_engine import HubFlower
from turnout.engines.flower.server_connection import flower_run
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.federation.deployed import federation_of
from turnout.federation.server import connect_clients
from turnout.io.models import load_model

pytestmark = pytest.mark.slow

TOML = """
[problem]
kind = "log-sum"
clients = {clients}
dimension = 30
parts = 1
[sampler]
kind = "nice"
size = {size}
{algorithm}
[run]
rounds = 6
metrics = ["value"]
[hubs]
{hubs}
[faults]
missing = "repeat"
"""


INSIDE = {
    "fedavg": 'kind = "fedavg"\nsteps = 2\nlr = 0.001',
    "sppm": 'kind = "sppm"\ngamma = 0.001\ninner = 3\nsolver = { kind = "bfgs", convexity = 0.0 }',
    "scaffold": 'kind = "scaffold"\nsteps = 2\nlr = 0.001',
}
SCAFFOLD = f"[algorithm]\n{INSIDE['scaffold']}"


def in_hubs(inside: str, more: str = "") -> str:
    return f'[algorithm]\nkind = "in-hubs"\nrounds = 3\n{more}[algorithm.algorithm]\n{INSIDE[inside]}'


@pytest.mark.tiers(quick=[], slow=["forwarding", "fedavg"])
@pytest.mark.parametrize("name", ["forwarding", "fedavg", "sppm"])
def test_four_hubs_of_five_nodes_play_the_compiled_run(name, tmp_path):
    """As `turnout deploy` starts them, on this machine; the counts of all links are those of the compiled run."""
    file, out = tmp_path / "file.toml", tmp_path / "out"
    algorithm, size = (SCAFFOLD, 8) if name == "forwarding" else (in_hubs(name), 3)
    file.write_text(TOML.format(clients=20, size=size, hubs="count = 4", algorithm=algorithm))
    code, _, errors = whole("deploy", file, "--out", out)
    assert code == 0, errors
    experiment = read(file)
    expected = session_of(experiment, build(experiment, None)).run().trace
    found = load_model(out / "model.safetensors", expected.x)
    np.testing.assert_allclose(found, expected.x, rtol=1e-10)
    totals, ledger = expected.ledger.totals(), json.loads((out / "summary.json").read_text())["ledger"]["totals"]
    counted = {*ledger} - {"microseconds", "seconds"}
    assert {name: totals[name] for name in counted} == {name: ledger[name] for name in counted} and {*SERVER} < counted
    assert totals["server_contacts"] < totals["contacts"]
    readable = [path.name for path in out.glob("federation/**/*") if path.is_file() and path.stat().st_mode & 0o077]
    assert all(name in ("ca.crt", "server.pem", "clients.toml") or name.endswith(".pub") for name in readable)


def test_a_hub_that_is_killed_starts_again_and_nothing_is_lost(tmp_path, monkeypatch):
    """With its SuperLink, after which its nodes connect to the new one; every other client is one of its nodes."""
    monkeypatch.setattr("turnout.runs.session.CHUNK_SECONDS", 0.0)
    (tmp_path / "file.toml").write_text(TOML.format(clients=6, size=4, hubs="of = [0, 1, 0, 1, 0, 1]", algorithm=SCAFFOLD))
    place, experiment = federation_of(tmp_path / "federation", tmp_path / "file.toml", None), read(tmp_path / "file.toml")
    try:
        place.start()
        with place.supervised(), flower_run(place.server) as grid:
            mailbox, nodes = connect_clients(grid, experiment, None, 15.0, keys=place.folder)
            session = session_of(experiment, build(experiment, None), engine=partial(HubFlower, mailbox, nodes, False))
            for _ in session.play():
                if session.round == 2:
                    killed = place.children["hub-1"]
                    killed.kill()
    finally:
        place.stop()
    assert killed.wait() == -9
    expected = session_of(experiment, build(experiment, None)).run().trace
    np.testing.assert_allclose(session.trace.x, expected.x, rtol=1e-10)
    assert session.trace.ledger.links() == expected.ledger.links()
    assert mailbox.counts["late or missing"] > 0
    assert session.trace.ledger.totals()["arrivals"] == expected.ledger.totals()["arrivals"]
